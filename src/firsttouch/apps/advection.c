/* The second half of a step of halo: what crossed the faces of cells, and the velocities with it, by two sweeps, along
   x and y in turns. vertical: a sweep along y. second: the second sweep of a step. Numbers are taken from upwind, with
   the slope of van Leer's limiter. work: energy, or mass between nodes; the mass of nodes; momentum in both directions.
 */
#include "staggered.h"

/* The volumes that cross faces in a time dt. */
KERNEL advection_volumes(GLOBAL double* fields, ulong nx, ulong ny, double dx, double dy, double dt) {
    GLOBAL const double* u = fields + plane(nx, ny, XVEL0);
    GLOBAL const double* v = fields + plane(nx, ny, YVEL0);
    GLOBAL const double* u1 = fields + plane(nx, ny, XVEL1);
    GLOBAL const double* v1 = fields + plane(nx, ny, YVEL1);
    GLOBAL double* to_right = fields + plane(nx, ny, VOL_FLUX);
    GLOBAL double* up = fields + plane(nx, ny, VOL_FLUX + 1);
    FOR_EACH(i, (nx + 1) * (ny + 1)) {
        const ulong c = spot(i, nx + 1, nx), w = WIDE(nx);
        if (i < (nx + 1) * ny) to_right[c] = 0.25 * dt * dy * (u[c] + u[c + w] + u1[c] + u1[c + w]);
        if (i % (nx + 1) < nx) up[c] = 0.25 * dt * dx * (v[c] + v[c + 1] + v1[c] + v1[c + 1]);
    }
}

/* The value that leaves a donor: that of its middle and a part of its slope. part, travelled: of the donor's volume or
   mass that leaves. */
HELPER double leaving(double upwind, double donor, double downwind, double part, double travelled) {
    const double a = donor - upwind, b = downwind - donor, up = ABS_F64(a), down = ABS_F64(b);
    const double slope = lower(lower(up, down), ((1.0 + part) * up + (2.0 - part) * down) / 6.0);
    return a * b > 0.0 ? donor + (1.0 - travelled) * (b > 0.0 ? slope : -slope) : donor;
}

/* The volume of a cell before a sweep. along, across: what crosses its faces in the direction of the sweep, a step `to`
   apart, and in the other one, a step `side` apart. */
HELPER double volume_before(GLOBAL const double* along, GLOBAL const double* across, ulong c, ulong to, ulong side,
                            double volume, uint second) {
    return volume + (along[c + to] - along[c]) + (second ? 0.0 : across[c + side] - across[c]);
}

KERNEL advection_faces(GLOBAL double* fields, GLOBAL double* work, ulong nx, ulong ny, double volume, uint vertical,
                       uint second) {
    GLOBAL const double* along = fields + plane(nx, ny, VOL_FLUX + vertical);
    GLOBAL const double* across = fields + plane(nx, ny, VOL_FLUX + 1 - vertical);
    GLOBAL const double* rho = fields + plane(nx, ny, DENSITY1);
    GLOBAL const double* energy = fields + plane(nx, ny, ENERGY1);
    GLOBAL double* mass = fields + plane(nx, ny, MASS_FLUX + vertical);
    const ulong to = vertical ? WIDE(nx) : 1, side = vertical ? 1 : WIDE(nx), wide = nx + 1 - vertical;
    FOR_EACH(i, wide * (ny + vertical)) {
        const ulong c = spot(i, wide, nx);
        const uint forward = along[c] > 0.0;
        const ulong donor = forward ? c - to : c, up = forward ? c - 2 * to : c + to, down = forward ? c : c - to;
        const double before = volume_before(along, across, donor, to, side, volume, second);
        const double part = ABS_F64(along[c]) / before;
        const double crossed = along[c] * leaving(rho[up], rho[donor], rho[down], part, part);
        const double travelled = ABS_F64(crossed) / (rho[donor] * before);
        mass[c] = crossed;
        work[c] = crossed * leaving(energy[up], energy[donor], energy[down], part, travelled);
    }
}

KERNEL advection_cells(GLOBAL double* fields, GLOBAL const double* work, ulong nx, ulong ny, double volume,
                       uint vertical, uint second) {
    GLOBAL const double* along = fields + plane(nx, ny, VOL_FLUX + vertical);
    GLOBAL const double* across = fields + plane(nx, ny, VOL_FLUX + 1 - vertical);
    GLOBAL const double* mass = fields + plane(nx, ny, MASS_FLUX + vertical);
    GLOBAL double* rho = fields + plane(nx, ny, DENSITY1);
    GLOBAL double* energy = fields + plane(nx, ny, ENERGY1);
    const ulong to = vertical ? WIDE(nx) : 1, side = vertical ? 1 : WIDE(nx);
    FOR_EACH(i, nx * ny) {
        const ulong c = spot(i, nx, nx);
        const double before = volume_before(along, across, c, to, side, volume, second);
        const double had = rho[c] * before, has = had + mass[c] - mass[c + to];
        energy[c] = (energy[c] * had + work[c] - work[c + to]) / has;
        rho[c] = has / (before + along[c] - along[c + to]);
    }
}

/* The mass that crosses from each node to the next in the direction of the sweep, and that of the node after it. */
KERNEL advection_nodes(GLOBAL const double* fields, GLOBAL double* work, ulong nx, ulong ny, double volume,
                       uint vertical, uint second) {
    GLOBAL const double* across = fields + plane(nx, ny, VOL_FLUX + 1 - vertical);
    GLOBAL const double* mass = fields + plane(nx, ny, MASS_FLUX + vertical);
    GLOBAL const double* rho = fields + plane(nx, ny, DENSITY1);
    GLOBAL double* after = work + plane(nx, ny, 1);
    const ulong to = vertical ? WIDE(nx) : 1, side = vertical ? 1 : WIDE(nx), wide = nx + (vertical ? 1 : 4);
    FOR_EACH(i, wide * (ny + (vertical ? 4 : 1))) {
        const ulong c = spot(i, wide, nx) - 2 * to;
        work[c] = 0.25 * (mass[c - side] + mass[c] + mass[c - side + to] + mass[c + to]);
        if (vertical ? i < wide : i % wide == 0) continue; /* the first has no cell before it */
        double sum = 0.0;
        for (uint k = 0; k < 4; ++k) {
            const ulong cell = c - (k & 1u ? to : 0) - (k & 2u ? side : 0);
            sum += rho[cell] * (volume + (second ? 0.0 : across[cell + side] - across[cell]));
        }
        after[c] = 0.25 * sum;
    }
}

KERNEL advection_momentum(GLOBAL const double* fields, GLOBAL double* work, ulong nx, ulong ny, uint vertical) {
    GLOBAL const double* after = work + plane(nx, ny, 1);
    const ulong to = vertical ? WIDE(nx) : 1, wide = nx + (vertical ? 1 : 2), n = wide * (ny + (vertical ? 2 : 1));
    FOR_EACH(i, 2 * n) {
        const uint k = i >= n;
        const ulong c = spot(k ? i - n : i, wide, nx) - to;
        GLOBAL const double* velocity = fields + plane(nx, ny, k ? YVEL1 : XVEL1);
        const uint back = work[c] < 0.0;
        const ulong donor = back ? c + to : c, up = back ? c + 2 * to : c - to, down = back ? c : c + to;
        const double part = ABS_F64(work[c]) / (after[donor] - work[donor - to] + work[donor]);
        work[plane(nx, ny, 2 + k) + c] = work[c] * leaving(velocity[up], velocity[donor], velocity[down], part, part);
    }
}

KERNEL advection_velocities(GLOBAL double* fields, GLOBAL const double* work, ulong nx, ulong ny, uint vertical) {
    GLOBAL const double* after = work + plane(nx, ny, 1);
    const ulong to = vertical ? WIDE(nx) : 1, n = (nx + 1) * (ny + 1);
    FOR_EACH(i, 2 * n) {
        const uint k = i >= n;
        const ulong c = spot(k ? i - n : i, nx + 1, nx);
        GLOBAL double* velocity = fields + plane(nx, ny, k ? YVEL1 : XVEL1);
        GLOBAL const double* momentum = work + plane(nx, ny, 2 + k);
        const double before = after[c] - work[c - to] + work[c];
        velocity[c] = (velocity[c] * before + momentum[c - to] - momentum[c]) / after[c];
    }
}

/* The state after a step becomes that before the next one. */
KERNEL advection_reset(GLOBAL double* fields, ulong nx, ulong ny) {
    const ulong each = plane(nx, ny, 1);
    FOR_EACH(i, each) {
        fields[DENSITY0 * each + i] = fields[DENSITY1 * each + i];
        fields[ENERGY0 * each + i] = fields[ENERGY1 * each + i];
        fields[XVEL0 * each + i] = fields[XVEL1 * each + i];
        fields[YVEL0 * each + i] = fields[YVEL1 * each + i];
    }
}
