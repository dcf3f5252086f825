/* The first half of a step of halo: cells move with the gas. After it, advection.c moves the gas back to the cells. */
#include "staggered.h"
#define SMALL 1e-16
#define LARGE 1e21

/* Pressure and speed of sound of an ideal gas, 1.4 the ratio of its heats. late: of the state with number 1. */
KERNEL lagrangian_gas(GLOBAL double* fields, ulong nx, ulong ny, uint late) {
    GLOBAL const double* rho = fields + plane(nx, ny, late ? DENSITY1 : DENSITY0);
    GLOBAL const double* energy = fields + plane(nx, ny, late ? ENERGY1 : ENERGY0);
    GLOBAL double* pressure = fields + plane(nx, ny, PRESSURE);
    GLOBAL double* sound = fields + plane(nx, ny, SOUND);
    FOR_EACH(i, nx * ny) {
        const ulong c = spot(i, nx, nx);
        const double p = 0.4 * rho[c] * energy[c];
        pressure[c] = p;
        sound[c] = SQRT_F64(1.4 * p / rho[c]);
    }
}

/* Artificial viscosity, quadratic in the velocity that a cell loses along the gradient of pressure, where it shrinks.
 */
KERNEL lagrangian_viscosity(GLOBAL double* fields, ulong nx, ulong ny, double dx, double dy) {
    GLOBAL const double* rho = fields + plane(nx, ny, DENSITY0);
    GLOBAL const double* p = fields + plane(nx, ny, PRESSURE);
    GLOBAL const double* u = fields + plane(nx, ny, XVEL0);
    GLOBAL const double* v = fields + plane(nx, ny, YVEL0);
    GLOBAL double* viscosity = fields + plane(nx, ny, VISCOSITY);
    FOR_EACH(i, nx * ny) {
        const ulong c = spot(i, nx, nx), w = WIDE(nx);
        const double ux = (u[c + 1] + u[c + w + 1]) - (u[c] + u[c + w]);
        const double uy = (u[c + w] + u[c + w + 1]) - (u[c] + u[c + 1]);
        const double vx = (v[c + 1] + v[c + w + 1]) - (v[c] + v[c + w]);
        const double vy = (v[c + w] + v[c + w + 1]) - (v[c] + v[c + 1]);
        const double px = (p[c + 1] - p[c - 1]) / (2.0 * dx), py = (p[c + w] - p[c - w]) / (2.0 * dy);
        const double strain = 0.5 * uy / dy + 0.5 * vx / dx;
        const double change =
            (0.5 * ux / dx * px * px + 0.5 * vy / dy * py * py + strain * px * py) / higher(px * px + py * py, SMALL);
        double q = 0.0;
        if (change <= 0.0 && dx * vy + dy * ux < 0.0) {
            const double ax = higher(ABS_F64(px), SMALL), ay = higher(ABS_F64(py), SMALL);
            const double slope = SQRT_F64(ax * ax + ay * ay);
            const double length = lower(dx * slope / ax, dy * slope / ay);
            q = 2.0 * rho[c] * length * length * change * change;
        }
        viscosity[c] = q;
    }
}

/* For each group, the longest step that all its cells admit, as bits of f64. */
GROUP_KERNEL lagrangian_timestep(GLOBAL const double* fields, GLOBAL ulong* sums, ulong nx, ulong ny, double dx,
                                 double dy) {
    SHARED double part[THREADS];
    GLOBAL const double* rho = fields + plane(nx, ny, DENSITY0);
    GLOBAL const double* q = fields + plane(nx, ny, VISCOSITY);
    GLOBAL const double* sound = fields + plane(nx, ny, SOUND);
    GLOBAL const double* u = fields + plane(nx, ny, XVEL0);
    GLOBAL const double* v = fields + plane(nx, ny, YVEL0);
    const double volume = dx * dy;
    double mine = LARGE;
    FOR_EACH(i, nx * ny) {
        const ulong c = spot(i, nx, nx), w = WIDE(nx);
        const double speed = SQRT_F64(sound[c] * sound[c] + 2.0 * q[c] / rho[c]);
        const double left = (u[c] + u[c + w]) * dy, right = (u[c + 1] + u[c + w + 1]) * dy;
        const double below = (v[c] + v[c + 1]) * dx, above = (v[c + w] + v[c + w + 1]) * dx;
        const double growth = (right - left + above - below) / (2.0 * volume);
        mine = lower(mine, 0.7 * lower(dx, dy) / higher(speed, SMALL));
        mine = lower(mine, volume / higher(higher(ABS_F64(left), ABS_F64(right)), SMALL * volume));
        mine = lower(mine, volume / higher(higher(ABS_F64(below), ABS_F64(above)), SMALL * volume));
        if (growth < -SMALL) mine = lower(mine, -0.7 / growth);
    }
    part[LOCAL_ID] = mine;
    BARRIER();
    for (uint span = THREADS / 2; span > 0; span /= 2) {
        if (LOCAL_ID < span) part[LOCAL_ID] = lower(part[LOCAL_ID], part[LOCAL_ID + span]);
        BARRIER();
    }
    if (LOCAL_ID == 0) sums[GROUP_ID * SUMMED] = BITS_OF_F64(part[0]);
}

/* Density and energy of cells after a time dt, by the work of pressure and viscosity. late: with the mean of the
   velocities before and after the step, otherwise with those before it. */
KERNEL lagrangian_work(GLOBAL double* fields, ulong nx, ulong ny, double dx, double dy, double dt, uint late) {
    GLOBAL const double* rho = fields + plane(nx, ny, DENSITY0);
    GLOBAL const double* energy = fields + plane(nx, ny, ENERGY0);
    GLOBAL const double* p = fields + plane(nx, ny, PRESSURE);
    GLOBAL const double* q = fields + plane(nx, ny, VISCOSITY);
    GLOBAL const double* u = fields + plane(nx, ny, XVEL0);
    GLOBAL const double* v = fields + plane(nx, ny, YVEL0);
    GLOBAL const double* u1 = fields + plane(nx, ny, late ? XVEL1 : XVEL0);
    GLOBAL const double* v1 = fields + plane(nx, ny, late ? YVEL1 : YVEL0);
    GLOBAL double* new_rho = fields + plane(nx, ny, DENSITY1);
    GLOBAL double* new_energy = fields + plane(nx, ny, ENERGY1);
    FOR_EACH(i, nx * ny) {
        const ulong c = spot(i, nx, nx), w = WIDE(nx);
        const double left = u[c] + u[c + w] + u1[c] + u1[c + w];
        const double right = u[c + 1] + u[c + w + 1] + u1[c + 1] + u1[c + w + 1];
        const double below = v[c] + v[c + 1] + v1[c] + v1[c + 1];
        const double above = v[c + w] + v[c + w + 1] + v1[c + w] + v1[c + w + 1];
        const double grown = 0.25 * dt * (dy * (right - left) + dx * (above - below)), volume = dx * dy;
        new_energy[c] = energy[c] - (p[c] + q[c]) / rho[c] * grown / volume;
        new_rho[c] = rho[c] * (volume / (volume + grown));
    }
}

/* Velocities of nodes after a time dt, by the pressure and viscosity of the four cells around them. */
KERNEL lagrangian_accelerate(GLOBAL double* fields, ulong nx, ulong ny, double dx, double dy, double dt) {
    GLOBAL const double* rho = fields + plane(nx, ny, DENSITY0);
    GLOBAL const double* p = fields + plane(nx, ny, PRESSURE);
    GLOBAL const double* q = fields + plane(nx, ny, VISCOSITY);
    GLOBAL const double* u = fields + plane(nx, ny, XVEL0);
    GLOBAL const double* v = fields + plane(nx, ny, YVEL0);
    GLOBAL double* new_u = fields + plane(nx, ny, XVEL1);
    GLOBAL double* new_v = fields + plane(nx, ny, YVEL1);
    FOR_EACH(i, (nx + 1) * (ny + 1)) {
        const ulong c = spot(i, nx + 1, nx), w = WIDE(nx);
        const double mass = 0.25 * dx * dy * (rho[c - w - 1] + rho[c - w] + rho[c] + rho[c - 1]), by = 0.5 * dt / mass;
        const double px = (p[c] - p[c - 1]) + (p[c - w] - p[c - w - 1]);
        const double py = (p[c] - p[c - w]) + (p[c - 1] - p[c - w - 1]);
        const double qx = (q[c] - q[c - 1]) + (q[c - w] - q[c - w - 1]);
        const double qy = (q[c] - q[c - w]) + (q[c - 1] - q[c - w - 1]);
        new_u[c] = u[c] - by * dy * (px + qx);
        new_v[c] = v[c] - by * dx * (py + qy);
    }
}
