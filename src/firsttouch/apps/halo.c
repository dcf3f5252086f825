/* halo: the state at the beginning, the exchange of halos, and sums over all cells. */
#include "staggered.h"
/* Bits of the fields that have a column more, and a row more, and of those whose sign changes at a wall at the left or
   right, and below or above. */
#define MORE_X 0x1730u
#define MORE_Y 0x2B30u
#define TURNS_X 0x1510u
#define TURNS_Y 0x2A20u

HELPER uint has(uint bits, uint field) { return bits >> field & 1u; }

/* Two states at rest: one in the lower left, from 0 to half of the columns and a fifth of the rows, and the other one
   around it. Density and energy of each cell differ by up to a part in 200,000, so that no two are alike. */
KERNEL halo_begin(GLOBAL double* fields, ulong nx, ulong ny, ulong left, ulong bottom, ulong columns, ulong rows,
                  ulong key) {
    const ulong each = WIDE(nx) * (ny + 5);
    FOR_EACH(i, FIELDS * each) {
        const uint field = (uint)(i / each);
        const ulong row = i % each / WIDE(nx), column = i % WIDE(nx);
        const uint inside = column >= HALO && column < HALO + nx + has(MORE_X, field) && row >= HALO &&
                            row < HALO + ny + has(MORE_Y, field);
        const ulong x = left + column - HALO, y = bottom + row - HALO;
        const uint dense = 2 * x < columns && 5 * y < rows;
        const double unlike = 1.0 + 1e-5 * (random_f64(key, (field * rows + y) * columns + x) - 0.5);
        const double state = field == DENSITY0  ? (dense ? 1.0 : 0.2) * unlike
                             : field == ENERGY0 ? (dense ? 2.5 : 1.0) * unlike
                                                : 0.0;
        fields[i] = inside ? state : -1.0;
    }
}

/* Item i of `count` numbers in the halo at one side (left or right, or, if vertical, below or above): field by field,
   layers from the border on, then along the border. field_of is its field, item its place: in the halo if it arrives,
   otherwise inside the block, where it leaves or is reflected. */
HELPER uint field_of(ulong i, ulong each, uint flagged) {
    uint field = 0;
    for (ulong k = i / each;; ++field)
        if (has(flagged, field) && k-- == 0) return field;
}
HELPER ulong item(ulong i, ulong nx, ulong ny, uint field, uint depth, uint vertical, uint high, uint arrives) {
    const ulong along = vertical ? nx + 1 + 2 * depth : ny + 1;
    const long layer = (long)(i / along % depth), at = (long)(i % along) - (vertical ? (long)depth : 0);
    const long more = has(vertical ? MORE_Y : MORE_X, field), size = (long)(vertical ? ny : nx);
    const long below = arrives ? -1 - layer : layer + more, above = arrives ? size + layer + more : size - 1 - layer;
    const long across = high ? above : below, x = vertical ? at : across, y = vertical ? across : at;
    return plane(nx, ny, field) + (ulong)(y + HALO) * WIDE(nx) + (ulong)(x + HALO);
}
HELPER ulong items(ulong nx, ulong ny, uint depth, uint vertical) {
    return depth * (vertical ? nx + 1 + 2 * depth : ny + 1);
}

/* Messages of `count` numbers to both sides, or to one: those from number `first` on. */
KERNEL halo_pack(GLOBAL const double* fields, GLOBAL double* messages, ulong count, ulong nx, ulong ny, uint flagged,
                 uint depth, uint vertical, ulong first, ulong n) {
    FOR_EACH(k, n) {
        const ulong high = first + k >= count, i = first + k - high * count;
        const uint field = field_of(i, items(nx, ny, depth, vertical), flagged);
        messages[first + k] = fields[item(i, nx, ny, field, depth, vertical, (uint)high, 0)];
    }
}

/* Fills the halos at two sides: with what arrived, or at a wall (walls: bit 0 for the lower side) with what is before
   it, reflected. */
KERNEL halo_fill(GLOBAL double* fields, GLOBAL const double* messages, ulong count, ulong nx, ulong ny, uint flagged,
                 uint depth, uint vertical, uint walls) {
    FOR_EACH(k, 2 * count) {
        const ulong high = k >= count, i = k - high * count;
        const uint field = field_of(i, items(nx, ny, depth, vertical), flagged);
        const ulong to = item(i, nx, ny, field, depth, vertical, (uint)high, 1);
        if (walls >> high & 1u) {
            const double before = fields[item(i, nx, ny, field, depth, vertical, (uint)high, 0)];
            fields[to] = has(vertical ? TURNS_Y : TURNS_X, field) ? -before : before;
        } else
            fields[to] = messages[k];
    }
}

/* For each group: mass, internal energy, kinetic energy, and the integrals of volume and pressure, as bits of f64; and
   a digest of the state, whatever the blocks. */
GROUP_KERNEL halo_summary(GLOBAL const double* fields, GLOBAL ulong* sums, ulong nx, ulong ny, ulong left, ulong bottom,
                          ulong columns, double volume, uint late) {
    SHARED double part[THREADS];
    SHARED ulong digests[THREADS];
    GLOBAL const double* rho = fields + plane(nx, ny, late ? DENSITY1 : DENSITY0);
    GLOBAL const double* energy = fields + plane(nx, ny, late ? ENERGY1 : ENERGY0);
    GLOBAL const double* u = fields + plane(nx, ny, late ? XVEL1 : XVEL0);
    GLOBAL const double* v = fields + plane(nx, ny, late ? YVEL1 : YVEL0);
    GLOBAL const double* p = fields + plane(nx, ny, PRESSURE);
    double mass = 0.0, internal = 0.0, kinetic = 0.0, pressure = 0.0, all = 0.0;
    ulong digest = 0;
    FOR_EACH(i, nx * ny) {
        const ulong c = spot(i, nx, nx), w = WIDE(nx), id = 4 * ((bottom + i / nx) * columns + left + i % nx);
        const double cell = rho[c] * volume;
        const double squares = u[c] * u[c] + v[c] * v[c] + u[c + 1] * u[c + 1] + v[c + 1] * v[c + 1] +
                               u[c + w] * u[c + w] + v[c + w] * v[c + w] + u[c + w + 1] * u[c + w + 1] +
                               v[c + w + 1] * v[c + w + 1];
        all += volume;
        mass += cell;
        internal += cell * energy[c];
        kinetic += cell * 0.125 * squares;
        pressure += volume * p[c];
        digest += mix64(BITS_OF_F64(rho[c]) + id) + mix64(BITS_OF_F64(energy[c]) + id + 1) +
                  mix64(BITS_OF_F64(u[c]) + id + 2) + mix64(BITS_OF_F64(v[c]) + id + 3);
    }
    GLOBAL ulong* own = sums + GROUP_ID * SUMMED;
    const double totals[5] = {mass, internal, kinetic, all, pressure};
    UNROLLED
    for (uint k = 0; k < 5; ++k) {
        GROUP_SUM(part, totals[k], THREADS)
        if (LOCAL_ID == 0) own[k] = BITS_OF_F64(part[0]);
    }
    GROUP_SUM(digests, digest, THREADS)
    if (LOCAL_ID == 0) own[5] = digests[0];
}
