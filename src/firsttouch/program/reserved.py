"""Names that kernels can't use: the built-in functions of OpenCL C (OpenCL C 3.0 specification, 6.15)."""

from __future__ import annotations

# fmt: off
BUILT_IN = frozenset((
    "abs", "abs_diff", "acos", "acosh", "acospi", "add_sat", "all", "any", "asin", "asinh", "asinpi", "atan", "atan2",
    "atan2pi", "atanh", "atanpi", "atomic_add", "atomic_and", "atomic_cmpxchg", "atomic_dec", "atomic_exchange",
    "atomic_inc", "atomic_init", "atomic_load", "atomic_max", "atomic_min", "atomic_or", "atomic_store", "atomic_sub",
    "atomic_xchg", "atomic_xor", "barrier", "bitselect", "cbrt", "ceil", "clamp", "clz", "copysign", "cos", "cosh",
    "cospi", "cross", "ctz", "degrees", "distance", "dot", "erf", "erfc", "exp", "exp10", "exp2", "expm1", "fabs",
    "fast_distance", "fast_length", "fast_normalize", "fdim", "floor", "fma", "fmax", "fmin", "fmod", "fract", "frexp",
    "get_enqueued_local_size", "get_global_id", "get_global_linear_id", "get_global_offset", "get_global_size",
    "get_group_id", "get_local_id", "get_local_linear_id", "get_local_size", "get_num_groups", "get_work_dim", "hadd",
    "hypot", "ilogb", "isequal", "isfinite", "isgreater", "isgreaterequal", "isinf", "isless", "islessequal",
    "islessgreater", "isnan", "isnormal", "isnotequal", "isordered", "isunordered", "ldexp", "length", "lgamma",
    "lgamma_r", "log", "log10", "log1p", "log2", "logb", "mad", "mad24", "mad_hi", "mad_sat", "max", "maxmag",
    "mem_fence", "min", "minmag", "mix", "modf", "mul24", "mul_hi", "nan", "nextafter", "normalize", "popcount", "pow",
    "pown", "powr", "prefetch", "printf", "radians", "read_mem_fence", "remainder", "remquo", "rhadd", "rint", "rootn",
    "rotate", "round", "rsqrt", "select", "shuffle", "shuffle2", "sign", "signbit", "sin", "sincos", "sinh", "sinpi",
    "smoothstep", "sqrt", "step", "sub_sat", "tan", "tanh", "tanpi", "tgamma", "trunc", "upsample",
    "work_group_barrier", "write_mem_fence",
))
# fmt: on
