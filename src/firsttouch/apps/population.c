/* population: the particles of transport at the beginning of a step. */
#include "neutron.h"

/* Each cell of a block emits `each` particles, at random places, times, directions and energies. */
KERNEL population_source(GLOBAL ulong* census, GLOBAL const double* edges, GLOBAL ulong* control, ulong first,
                         ulong capacity, ulong count, ulong each, ulong extent, ulong origin, ulong cells, ulong step,
                         double side, double weight, double duration, ulong key) {
    const ulong nx = along(extent, 0), ny = along(extent, 1);
    FOR_EACH(i, count) {
        const ulong cell = i / each, x = along(origin, 0) + cell % nx, y = along(origin, 1) + cell / nx % ny,
                    z = along(origin, 2) + cell / nx / ny;
        const ulong root = (((step * cells + z) * cells + y) * cells + x) * each + i % each;
        const ulong id = random_word(key, root);
        GLOBAL ulong* p = census + within(control, first + i, capacity) * WORDS;
        ulong state = mix64(id);
        SET(p, POSITION, ((double)x + DRAW(state)) * side);
        SET(p, POSITION + 1, ((double)y + DRAW(state)) * side);
        SET(p, POSITION + 2, ((double)z + DRAW(state)) * side);
        const double cosine = 1.0 - 2.0 * DRAW(state);
        const double turn = PI * (2.0 * DRAW(state) - 1.0);
        const double energy = (edges[GROUPS] - edges[0]) * DRAW(state) + edges[0];
        const double speed = speed_of(energy), across = speed * SQRT_F64(1.0 - cosine * cosine);
        SET(p, VELOCITY, across * COS_F64(turn));
        SET(p, VELOCITY + 1, across * SIN_F64(turn));
        SET(p, VELOCITY + 2, speed * cosine);
        SET(p, ENERGY, energy);
        SET(p, WEIGHT, weight);
        SET(p, PATHS, -LOG_F64(DRAW(state)));
        SET(p, TIME, duration * DRAW(state));
        SET(p, AGE, 0.0);
        SET(p, SEGMENTS, 0.0);
        p[RANDOM] = state;
        p[ID] = id;
        p[CELL_XY] = x | y << 32;
        p[CELL_Z] = z | group_of(edges, energy) << 32;
        p[ROOT] = root;
    }
}

/* Splits each particle, or kills some of them, so that on average `factor` times as many are left; then kills most of
   those of little weight. The survivors begin the step. */
KERNEL population_control(GLOBAL const ulong* census, GLOBAL ulong* particles, GLOBAL ulong* control, ulong count,
                          ulong capacity, double factor, double little, double cutoff, double duration) {
    FOR_EACH(i, count) {
        GLOBAL const ulong* p = census + i * WORDS;
        ulong state = p[RANDOM];
        const double chance = DRAW(state), whole = (double)(ulong)factor, weight = NUMBER(p, WEIGHT) / factor;
        const ulong made = (ulong)factor + (chance <= factor - whole ? 1 : 0);
        for (ulong k = made; k > 0; --k) { /* the particle itself is the last */
            ulong own = state = k > 1 ? next_state(state) : state;
            if (k > 1) own = mix64(own);
            const ulong id = k > 1 ? own : p[ID];
            if (k > 1) COUNT(SPLIT);
            const uint rare = weight <= little;
            if (rare && DRAW(own) > cutoff) {
                COUNT(KILLED);
                continue;
            }
            GLOBAL ulong* to = particles + place_for(control, NEXT, capacity) * WORDS;
            copy_to(to, p);
            SET(to, WEIGHT, rare ? weight / cutoff : weight);
            SET(to, TIME, NUMBER(p, TIME) <= 0.0 ? duration : NUMBER(p, TIME));
            to[RANDOM] = own;
            to[ID] = id;
        }
        if (made == 0) COUNT(KILLED);
    }
}
