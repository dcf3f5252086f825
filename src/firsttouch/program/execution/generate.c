/* Initial data of applications; both agents can run these. Element i depends only on key and i. */

KERNEL uniform_f32(GLOBAL float* p, ulong first, ulong n, ulong key, float low, float high) {
    FOR_EACH(i, n) p[first + i] = random_f32(key, first + i, low, high);
}

KERNEL uniform_f64(GLOBAL double* p, ulong first, ulong n, ulong key, double low, double high) {
    FOR_EACH(i, n) p[first + i] = low + (high - low) * random_f64(key, first + i);
}

/* Integers in [low, low + range). */
KERNEL uniform_i32(GLOBAL int* p, ulong first, ulong n, ulong key, int low, uint range) {
    FOR_EACH(i, n) p[first + i] = low + (int)random_below(key, first + i, range);
}

KERNEL fill_32(GLOBAL uint* p, ulong first, ulong n, uint word) {
    FOR_EACH(i, n) p[first + i] = word;
}

KERNEL fill_64(GLOBAL ulong* p, ulong first, ulong n, ulong word) {
    FOR_EACH(i, n) p[first + i] = word;
}

KERNEL fill_8(GLOBAL uchar* p, ulong first, ulong n, uint byte) {
    FOR_EACH(i, n) p[first + i] = (uchar)byte;
}

/* Reads one byte of each page; the sum keeps the compiler from removing the reads. */
KERNEL read_pages(GLOBAL const uchar* p, ulong first, ulong n, ulong page, GLOBAL ulong* sum) {
    ulong mine = 0;
    FOR_EACH(i, (n + page - 1) / page) mine += p[first + i * page];
    ATOMIC_ADD_U64_DEVICE(sum, mine);
}

/* Writes a zero byte to each page, so that it is resident. */
KERNEL touch(GLOBAL uchar* p, ulong n, ulong page) {
    FOR_EACH(i, (n + page - 1) / page) p[i * page] = 0;
}

/* Copies bytes. */
KERNEL copy_8(GLOBAL uchar* to, GLOBAL const uchar* from, ulong n) { FOR_EACH(i, n) to[i] = from[i]; }
