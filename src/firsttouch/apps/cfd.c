/* cfd: compressible Euler equations on tetrahedra, by finite volumes around the centres of the cells. An array holds
   five variables of n cells, one variable after the other: density, momentum in x, y and z, energy. Normals point
   inwards; their length is the area of the face. A negative neighbour is the border: a wall, or the far field (Mach 1.2
   along x). */
#define GAMMA 1.4f
#define WALL (-1)
#define FAR (-2)
#define NOISE 0.02f /* amplitude of the noise in the initial flow */
#define JITTER 0.1f /* displacement of the mesh's inner corners, in edges of a cube */
typedef struct {
    float density, x, y, z, energy;
} State;

HELPER State state(float density, float x, float y, float z, float energy) {
    State s;
    s.density = density, s.x = x, s.y = y, s.z = z, s.energy = energy;
    return s;
}
HELPER State far_away(void) { return state(1.4f, 1.68f, 0, 0, 3.508f); }
HELPER State load(GLOBAL const float* u, ulong n, ulong i) {
    return state(u[i], u[n + i], u[2 * n + i], u[3 * n + i], u[4 * n + i]);
}
HELPER void store(GLOBAL float* u, ulong n, ulong i, State s) {
    u[i] = s.density, u[n + i] = s.x, u[2 * n + i] = s.y, u[3 * n + i] = s.z, u[4 * n + i] = s.energy;
}
/* a + f b */
HELPER State plus(State a, float f, State b) {
    return state(a.density + f * b.density, a.x + f * b.x, a.y + f * b.y, a.z + f * b.z, a.energy + f * b.energy);
}
HELPER float pressure(State s) {
    return (GAMMA - 1.0f) * (s.energy - 0.5f * (s.x * s.x + s.y * s.y + s.z * s.z) / s.density);
}
/* The sum of the speeds of the fluid and of sound in it. */
HELPER float speed(State s, float p) {
    return SQRT_F32(s.x * s.x + s.y * s.y + s.z * s.z) / s.density + SQRT_F32(GAMMA * p / s.density);
}
/* The flux through a face. */
HELPER State flow(State s, float p, float x, float y, float z) {
    const float v = (s.x * x + s.y * y + s.z * z) / s.density;
    return state(s.density * v, s.x * v + p * x, s.y * v + p * y, s.z * v + p * z, v * (s.energy + p));
}

/* A corner at offset 0 or 1 from cube (x, y, z) of m x m x m, in edges. Corners inside the mesh are displaced a
   little. */
HELPER f32x4 corner(ulong key, ulong m, ulong x, ulong y, ulong z, uint dx, uint dy, uint dz) {
    const ulong at = (((z + dz) * (m + 1) + y + dy) * (m + 1) + x + dx) * 3;
    const int inside = x + dx > 0 && x + dx < m && y + dy > 0 && y + dy < m && z + dz > 0 && z + dz < m;
    const float most = inside ? JITTER : 0.0f;
    return F32X4((float)dx + random_f32(key, at, -most, most), (float)dy + random_f32(key, at + 1, -most, most),
                 (float)dz + random_f32(key, at + 2, -most, most), 0.0f);
}
/* The area vector of face a, b, c, pointing towards d, and its length. */
HELPER f32x4 inward(f32x4 a, f32x4 b, f32x4 c, f32x4 d) {
    const float bx = b.x - a.x, by = b.y - a.y, bz = b.z - a.z, cx = c.x - a.x, cy = c.y - a.y, cz = c.z - a.z;
    const float x = by * cz - bz * cy, y = bz * cx - bx * cz, z = bx * cy - by * cx;
    const float way = x * (d.x - a.x) + y * (d.y - a.y) + z * (d.z - a.z) < 0.0f ? -0.5f : 0.5f;
    return F32X4(way * x, way * y, way * z, 0.5f * SQRT_F32(x * x + y * y + z * z));
}
/* The number of the tetrahedron of cube (x, y, z) that extends from corner to corner along axes a, b and the third. */
HELPER int number(ulong m, uint bits, ulong key, ulong x, ulong y, ulong z, uint a, uint b) {
    const ulong i = ((z * m + y) * m + x) * 6 + 2 * a + (b == (a + 1) % 3 ? 0 : 1);
    return (int)permute(i, 6 * m * m * m, bits, key);
}

/* Generates m x m x m cubes of six tetrahedra each, in random order. areas: the squares of the cells' surface areas. */
KERNEL cfd_mesh(GLOBAL float* areas, GLOBAL int* neighbours, GLOBAL float* normals, ulong m, uint bits, ulong key) {
    const ulong n = 6 * m * m * m;
    FOR_EACH(i, n) {
        const ulong own = unpermute(i, n, bits, key), cube = own / 6;
        const ulong x = cube % m, y = cube / m % m, z = cube / m / m;
        const uint a = (uint)(own % 6) / 2, turn = (uint)(own % 2), b = (a + 1 + turn) % 3, c = 3 - a - b;
        const f32x4 p = corner(key, m, x, y, z, 0, 0, 0), s = corner(key, m, x, y, z, 1, 1, 1);
        const f32x4 q = corner(key, m, x, y, z, a == 0, a == 1, a == 2);
        const f32x4 r = corner(key, m, x, y, z, c != 0, c != 1, c != 2);
        const int high = (a == 0 ? x : a == 1 ? y : z) == m - 1, low = (c == 0 ? x : c == 1 ? y : z) == 0;
        neighbours[i] = high ? FAR : number(m, bits, key, x + (a == 0), y + (a == 1), z + (a == 2), b, c);
        neighbours[n + i] = number(m, bits, key, x, y, z, b, a);
        neighbours[2 * n + i] = number(m, bits, key, x, y, z, a, c);
        neighbours[3 * n + i] =
            low ? (c == 2 ? WALL : FAR) : number(m, bits, key, x - (c == 0), y - (c == 1), z - (c == 2), c, a);
        float surface = 0;
        UNROLLED for (int face = 0; face < 4; ++face) {
            const f32x4 v = face == 0   ? inward(q, r, s, p)
                            : face == 1 ? inward(p, r, s, q)
                            : face == 2 ? inward(p, q, s, r)
                                        : inward(p, q, r, s);
            normals[(ulong)(3 * face) * n + i] = v.x;
            normals[(ulong)(3 * face + 1) * n + i] = v.y;
            normals[(ulong)(3 * face + 2) * n + i] = v.z;
            surface += v.w;
        }
        areas[i] = surface * surface;
    }
}

/* The far field, with noise. */
KERNEL cfd_start(GLOBAL float* u, ulong n, ulong key) {
    FOR_EACH(i, n) {
        const State noise = state(random_f32(key, i, -NOISE, NOISE), random_f32(key, n + i, -NOISE, NOISE),
                                  random_f32(key, 2 * n + i, -NOISE, NOISE), random_f32(key, 3 * n + i, -NOISE, NOISE),
                                  random_f32(key, 4 * n + i, -NOISE, NOISE));
        store(u, n, i, plus(far_away(), 1.0f, noise));
    }
}

/* Saves the variables before the three stages, and computes the step factor of each cell. */
KERNEL cfd_factors(GLOBAL const float* areas, GLOBAL const float* u, GLOBAL float* old, GLOBAL float* factors,
                   ulong first, ulong count, ulong n) {
    FOR_EACH(k, count) {
        const ulong i = first + k;
        const State now = load(u, n, i);
        store(old, n, i, now);
        factors[i] = 0.5f / (SQRT_F32(areas[i]) * speed(now, pressure(now)));
    }
}

KERNEL cfd_flux(GLOBAL const int* neighbours, GLOBAL const float* normals, GLOBAL const float* u, GLOBAL float* flux,
                ulong first, ulong count, ulong n) {
    FOR_EACH(k, count) {
        const ulong i = first + k;
        const State own = load(u, n, i);
        const float p = pressure(own), fast = speed(own, p);
        State sum = state(0, 0, 0, 0, 0);
        UNROLLED for (int face = 0; face < 4; ++face) {
            const int there = neighbours[(ulong)face * n + i];
            const float x = normals[(ulong)(3 * face) * n + i], y = normals[(ulong)(3 * face + 1) * n + i];
            const float z = normals[(ulong)(3 * face + 2) * n + i];
            if (there == WALL) {
                sum = plus(sum, p, state(0, x, y, z, 0));
                continue;
            }
            const State other = there == FAR ? far_away() : load(u, n, (ulong)there);
            const float q = pressure(other);
            sum = plus(plus(sum, 0.5f, flow(own, p, x, y, z)), 0.5f, flow(other, q, x, y, z));
            if (there == FAR) continue;
            const float smooth = 0.1f * SQRT_F32(x * x + y * y + z * z) * (fast + speed(other, q));
            sum = plus(plus(sum, -smooth, own), smooth, other);
        }
        store(flux, n, i, sum);
    }
}

KERNEL cfd_step(GLOBAL const float* old, GLOBAL const float* flux, GLOBAL const float* factors, GLOBAL float* u,
                ulong first, ulong count, ulong n, float part) {
    FOR_EACH(k, count) {
        const ulong i = first + k;
        store(u, n, i, plus(load(old, n, i), factors[i] * part, load(flux, n, i)));
    }
}
