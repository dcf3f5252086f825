/* halo: fields on a staggered grid, of which each process has a block of nx x ny cells with two more around it.
   Field f is at fields[f][y + 2][x + 2], with x from -2 to nx + 2 and y from -2 to ny + 2. Fields on nodes and faces
   have one column or row more of their own, which are the first of the next block too. */
#define FIELDS 15
#define DENSITY 0
#define ENERGY 1
#define PRESSURE 2
#define SOUND 14
#define HALO 2
/* Bits of the fields that have a column more, and a row more, by the order in halo.py. */
#define MORE_X 0x1730u
#define MORE_Y 0x2B30u
#define WIDE(nx) ((nx) + 5)

HELPER uint has(uint bits, uint field) { return bits >> field & 1u; }
HELPER ulong place(ulong nx, ulong ny, uint field, long x, long y) {
    return ((ulong)field * (ny + 5) + (ulong)(y + HALO)) * WIDE(nx) + (ulong)(x + HALO);
}
/* What a cell of the whole grid of n x n holds at first: a number in [1, 2) that names it. */
HELPER double stamp(ulong key, uint field, ulong n, ulong x, ulong y) {
    return 1.0 + random_f64(key, ((ulong)field * n + y) * n + x);
}

KERNEL halo_begin(GLOBAL double* fields, ulong nx, ulong ny, ulong left, ulong bottom, ulong n, ulong key) {
    const ulong each = WIDE(nx) * (ny + 5);
    FOR_EACH(i, FIELDS * each) {
        const uint field = (uint)(i / each);
        const long y = (long)(i % each / WIDE(nx)) - HALO, x = (long)(i % WIDE(nx)) - HALO;
        const long width = (long)nx + has(MORE_X, field), height = (long)ny + has(MORE_Y, field);
        const ulong column = (left + (ulong)x) % n, row = (bottom + (ulong)y) % n;
        const uint inside = x >= 0 && x < width && y >= 0 && y < height;
        fields[i] = inside ? stamp(key, field, n, column, row) : -1.0;
    }
}

/* Two messages of `count` numbers each, to the left and right (or, if vertical, below and above): field by field, layers
   from the border on, then along the border. Returns the place of a number in `fields`: inside the block if it leaves,
   in the halo if it arrives. */
HELPER ulong item(ulong i, ulong count, ulong nx, ulong ny, uint flagged, uint depth, uint vertical, uint arrives) {
    const ulong along = vertical ? nx + 1 + 2 * depth : ny + 1;
    const uint high = i >= count;
    i -= high ? count : 0;
    uint field = 0;
    for (ulong k = i / (along * depth);; ++field)
        if (has(flagged, field) && k-- == 0) break;
    const long layer = (long)(i / along % depth), at = (long)(i % along) - (vertical ? (long)depth : 0);
    const long more = has(vertical ? MORE_Y : MORE_X, field), size = (long)(vertical ? ny : nx);
    const long below = arrives ? -1 - layer : layer + more, above = arrives ? size + layer + more : size - 1 - layer;
    const long across = high ? above : below;
    return vertical ? place(nx, ny, field, at, across) : place(nx, ny, field, across, at);
}

KERNEL halo_pack(GLOBAL const double* fields, GLOBAL double* messages, ulong count, ulong nx, ulong ny, uint flagged,
                 uint depth, uint vertical) {
    FOR_EACH(i, 2 * count) messages[i] = fields[item(i, count, nx, ny, flagged, depth, vertical, 0)];
}

KERNEL halo_unpack(GLOBAL double* fields, GLOBAL const double* messages, ulong count, ulong nx, ulong ny, uint flagged,
                   uint depth, uint vertical) {
    FOR_EACH(i, 2 * count) fields[item(i, count, nx, ny, flagged, depth, vertical, 1)] = messages[i];
}

/* Pressure and speed of sound of an ideal gas, 1.4 the ratio of its heats. */
KERNEL halo_gas(GLOBAL double* fields, ulong nx, ulong ny) {
    FOR_EACH(i, nx * ny) {
        const long y = (long)(i / nx), x = (long)(i % nx);
        const double mass = fields[place(nx, ny, DENSITY, x, y)];
        const double p = 0.4 * mass * fields[place(nx, ny, ENERGY, x, y)];
        fields[place(nx, ny, PRESSURE, x, y)] = p;
        fields[place(nx, ny, SOUND, x, y)] = SQRT_F64(1.4 * p / mass);
    }
}

/* Moves fields by whole cells, those of `near` by one and those of `far` by two; the others stay. */
KERNEL halo_move(GLOBAL const double* fields, GLOBAL double* next, ulong nx, ulong ny, uint near, uint far, int right,
                 int up) {
    const ulong each = WIDE(nx) * (ny + 5);
    FOR_EACH(i, FIELDS * each) {
        const uint field = (uint)(i / each);
        const long y = (long)(i % each / WIDE(nx)) - HALO, x = (long)(i % WIDE(nx)) - HALO;
        const long by = has(near, field) ? 1 : has(far, field) ? 2 : 0;
        const long width = (long)nx + has(MORE_X, field), height = (long)ny + has(MORE_Y, field);
        const uint inside = x >= 0 && x < width && y >= 0 && y < height;
        next[i] = inside ? fields[place(nx, ny, field, x - by * right, y - by * up)] : fields[i];
    }
}
