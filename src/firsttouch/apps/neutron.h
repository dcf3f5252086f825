/* A neutron of transport.c and population.c: WORDS words, which are position, velocity (3 f64 each), energy, weight, time
   to census, age, mean free paths to its next collision, segments (f64), state of its random numbers, id, cell (x below
   y), cell z below energy group, and the number of the source particle from which it descends. */
#define WORDS 17
#define POSITION 0
#define VELOCITY 3
#define ENERGY 6
#define WEIGHT 7
#define TIME 8
#define AGE 9
#define PATHS 10
#define SEGMENTS 11
#define RANDOM 12
#define ID 13
#define CELL_XY 14
#define CELL_Z 15
#define ROOT 16
#define GROUPS 230
/* The words of `control`: particles in the next round and at census; those for which there was no room; those in the
   queue of each face; sums of hashed ids that were sent and received, and over all particles; then what became of
   particles, by the order in transport.py. */
#define NEXT 0
#define CENSUS 1
#define OVERFLOW 2
#define QUEUED 3
#define SENT 9
#define RECEIVED 10
#define DIGEST 11
#define ABSORBED 12
#define FISSIONED 13
#define PRODUCED 14
#define KILLED 15
#define SPLIT 16
#define PI 3.1415926535897932

#define NUMBER(p, word) F64_OF_BITS((p)[word])
#define SET(p, word, value) ((p)[word] = BITS_OF_F64(value))
#define COUNT(what) ATOMIC_ADD_U64_DEVICE(control + (what), 1ul)
/* The next number in [0, 1] of a particle: a linear congruential generator of 64 bits, as in the original. */
#define DRAW(state) uniform((state) = next_state(state))

HELPER ulong next_state(ulong state) { return 2862933555777941757ul * state + 3037000493ul; }
HELPER double uniform(ulong state) { return 5.4210108624275222e-20 * (double)state; }
HELPER double speed_of(double energy) { /* cm/s, of a kinetic energy in MeV */
    const double part = 939.5656981095 / (energy + 939.5656981095);
    return 2.99792458e10 * SQRT_F64(1.0 - part * part);
}
HELPER ulong group_of(GLOBAL const double* edges, double energy) {
    ulong low = 0, high = GROUPS;
    while (high != low + 1) {
        const ulong middle = (low + high) / 2;
        if (energy < edges[middle])
            high = middle;
        else
            low = middle;
    }
    return low;
}
HELPER void copy_to(GLOBAL ulong* to, GLOBAL const ulong* from) {
    for (uint w = 0; w < WORDS; ++w) to[w] = from[w];
}
/* One of three numbers of cells along x, y and z, of 21 bits each. */
HELPER ulong along(ulong packed, uint axis) { return packed >> 21 * axis & 0x1ffffful; }
/* A place in a buffer of `capacity` particles: the last for those that have no room, which are counted. */
HELPER ulong within(GLOBAL ulong* control, ulong place, ulong capacity) {
    if (place < capacity) return place;
    COUNT(OVERFLOW);
    return capacity - 1;
}
HELPER ulong place_for(GLOBAL ulong* control, uint which, ulong capacity) {
    return within(control, COUNT(which), capacity);
}
