/* STREAM on a device with one thread for each of n elements of 8 bytes: no tiles and no vectors. The place depends on the
   pass number through a term that is always zero, so that the compiler cannot drop a pass. */
#define EACH_BODY(STATEMENT)                                     \
    const ulong i = GLOBAL_ID;                                   \
    if (i < n)                                                   \
        for (ulong pass = 0; pass < passes; ++pass) {            \
            const ulong at = i + (pass >> 40);                   \
            STATEMENT                                            \
        }

#define EACH_ARGUMENTS \
    GLOBAL double *a, GLOBAL const double *b, GLOBAL const double *c, double s, ulong n, ulong passes

KERNEL stream_copy_each(EACH_ARGUMENTS) { EACH_BODY(a[at] = b[at];) }
KERNEL stream_scale_each(EACH_ARGUMENTS) { EACH_BODY(a[at] = s * b[at];) }
KERNEL stream_add_each(EACH_ARGUMENTS) { EACH_BODY(a[at] = b[at] + c[at];) }
KERNEL stream_triad_each(EACH_ARGUMENTS) { EACH_BODY(a[at] = b[at] + s * c[at];) }
KERNEL stream_write_each(EACH_ARGUMENTS) { EACH_BODY(a[at] = s;) }
KERNEL stream_read_each(EACH_ARGUMENTS) {
    double sum = 0;
    EACH_BODY(sum += b[at];)
    if (i < n) a[i] = sum;
}
