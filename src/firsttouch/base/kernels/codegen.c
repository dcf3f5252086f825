/* One small kernel for each construct whose generated code the experiment `codegen` inspects. */
KERNEL codegen_add_u64_device(GLOBAL ulong* p, ulong v) {
    FOR_EACH(i, 1) p[1 + i] = ATOMIC_ADD_U64_DEVICE(p, v);
}
KERNEL codegen_add_u64_system(GLOBAL ulong* p, ulong v) {
    FOR_EACH(i, 1) p[1 + i] = ATOMIC_ADD_U64_SYSTEM(p, v);
}
KERNEL codegen_add_f64_device(GLOBAL double* p, double v) {
    FOR_EACH(i, 1) p[1 + i] = ATOMIC_ADD_F64_DEVICE(p, v);
}
KERNEL codegen_add_f64_system(GLOBAL double* p, double v) {
    FOR_EACH(i, 1) p[1 + i] = ATOMIC_ADD_F64_SYSTEM(p, v);
}
KERNEL codegen_load_vector(GLOBAL f64x2* p, GLOBAL const f64x2* q, ulong n) {
    FOR_EACH(i, n) p[i] = q[i];
}
KERNEL codegen_load_uncached(GLOBAL ulong* p, GLOBAL const ulong* q) {
    FOR_EACH(i, 1) p[i] = LOAD_UNCACHED(q + i);
}
