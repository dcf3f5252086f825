/* transport: neutrons fly through a box of cubic cells, of which each process has a block. */
#include "neutron.h"
#include "facets.h"

/* A direction after scattering, and a speed for the energy; `cosine` is that of the angle to the old direction. */
HELPER void scatter(GLOBAL ulong* p, double u, double v, double w, double energy, double cosine, double turn) {
    const double sine = SQRT_F64(1.0 - cosine * cosine), speed = speed_of(energy), ct = COS_F64(turn),
                 st = SIN_F64(turn);
    const double across = SQRT_F64(1.0 - w * w);
    const uint along_z = across < 1e-6;
    const double x = along_z ? sine * ct : cosine * u + sine * (u * w * ct - v * st) / across;
    const double y = along_z ? sine * st : cosine * v + sine * (v * w * ct + u * st) / across;
    const double z = along_z ? cosine * w : cosine * w - sine * across * ct;
    SET(p, VELOCITY, speed * x);
    SET(p, VELOCITY + 1, speed * y);
    SET(p, VELOCITY + 2, speed * z);
    SET(p, ENERGY, energy);
}

/* A collision: a reaction is chosen by its cross section. Returns how many particles come out of it; if there are
   several, all are put in `fresh`, to be tracked in the next round. */
HELPER ulong collide(GLOBAL ulong* p, double u, double v, double w, GLOBAL const double* edges,
                     GLOBAL const double* cross, double total, uint reactions, double mass, double yield,
                     GLOBAL ulong* fresh, GLOBAL ulong* control, ulong capacity) {
    ulong state = p[RANDOM];
    const ulong group = p[CELL_Z] >> 32;
    double left = total * DRAW(state);
    uint reaction = 0;
    for (; reaction < reactions - 1; ++reaction) {
        left -= cross[reaction * GROUPS + group];
        if (left < 0.0) break;
    }
    const uint kind = reaction % 3; /* of each isotope's reactions: scattering, fission, absorption in turn */
    if (kind == 2) {
        COUNT(ABSORBED);
        return 0;
    }
    const double energy = NUMBER(p, ENERGY);
    const ulong out = kind == 0 ? 1 : (ulong)(yield + DRAW(state));
    if (kind == 1) {
        COUNT(FISSIONED);
        ATOMIC_ADD_U64_DEVICE(control + PRODUCED, out);
    }
    for (ulong k = out; k > 0; --k) { /* the particle itself is the last */
        const double chance = DRAW(state), after = 0.5 * chance + 0.5;
        const double left_over = kind == 0 ? energy * (1.0 - chance / mass) : 20.0 * after * after;
        const double cosine = 2.0 * DRAW(state) - 1.0;
        const double turn = 2.0 * PI * DRAW(state);
        scatter(p, u, v, w, left_over, cosine, turn);
        SET(p, PATHS, -LOG_F64(DRAW(state)));
        p[CELL_Z] = (p[CELL_Z] & 0xfffffffful) | group_of(edges, left_over) << 32;
        p[RANDOM] = state;
        if (out == 1) break;
        GLOBAL ulong* to = fresh + place_for(control, NEXT, capacity) * WORDS;
        copy_to(to, p);
        if (k > 1) to[ID] = to[RANDOM] = mix64(state = next_state(state));
    }
    return out;
}

/* Tracks each particle until it is absorbed, splits in a fission, reaches census or leaves the block by a face. The box
   reflects. sums: over all cells and groups of the flux, each times its own number, which tells them apart; 64 of them
   for descendants of each source particle that numpy follows, whose number is a multiple of `every`, and 64 before them
   for all others. slots: for each face, four bits with the number of its queue, of `room` particles. */
KERNEL transport_track(GLOBAL ulong* particles, GLOBAL ulong* fresh, GLOBAL ulong* census, GLOBAL uint* queue,
                       GLOBAL ulong* control, GLOBAL double* flux, GLOBAL double* sums, GLOBAL const double* edges,
                       GLOBAL const double* cross, GLOBAL const double* totals, ulong first, ulong count,
                       ulong capacity, ulong room, ulong extent, ulong origin, ulong cells, double side, uint reactions,
                       double mass, double yield, uint slots, ulong every, uint facets) {
    FOR_EACH(k, count) {
        const ulong i = first + k;
        GLOBAL ulong* p = particles + i * WORDS;
        GLOBAL double* paths = sums + (p[ROOT] % every == 0 ? 64 : 0);
        for (;;) {
            const double speed = speed_of(NUMBER(p, ENERGY));
            const double u = NUMBER(p, VELOCITY) / speed, v = NUMBER(p, VELOCITY + 1) / speed,
                         w = NUMBER(p, VELOCITY + 2) / speed;
            const ulong x = p[CELL_XY] & 0xfffffffful, y = p[CELL_XY] >> 32, z = p[CELL_Z] & 0xfffffffful;
            const double total = totals[p[CELL_Z] >> 32];
            const double to_x = to_face(NUMBER(p, POSITION), x, u, side),
                         to_y = to_face(NUMBER(p, POSITION + 1), y, v, side),
                         to_z = to_face(NUMBER(p, POSITION + 2), z, w, side);
            const uint axis = axis_of(to_x, to_y, to_z, p, (double)x, (double)y, (double)z, u, v, w, side, facets);
            const double least = axis == 0 ? to_x : axis == 1 ? to_y : to_z;
            const double to_collision = NUMBER(p, PATHS) / total, to_census = speed * NUMBER(p, TIME);
            const uint collides = to_collision <= least && to_collision <= to_census;
            const uint ends = !collides && to_census < least;
            const double far = collides ? to_collision : ends ? to_census : least;
            SET(p, POSITION, NUMBER(p, POSITION) + far * u);
            SET(p, POSITION + 1, NUMBER(p, POSITION + 1) + far * v);
            SET(p, POSITION + 2, NUMBER(p, POSITION + 2) + far * w);
            SET(p, TIME, ends ? 0.0 : NUMBER(p, TIME) - far / speed);
            SET(p, AGE, NUMBER(p, AGE) + far / speed);
            SET(p, PATHS, NUMBER(p, PATHS) - far * total);
            SET(p, SEGMENTS, NUMBER(p, SEGMENTS) + 1.0);
            const ulong at = ((z - along(origin, 2)) * along(extent, 1) + y - along(origin, 1)) * along(extent, 0) + x -
                             along(origin, 0);
            const ulong place = at * GROUPS + (p[CELL_Z] >> 32);
            ATOMIC_ADD_F64_DEVICE(flux + place, far * NUMBER(p, WEIGHT));
            ATOMIC_ADD_F64_DEVICE(paths + (i & 63), far * NUMBER(p, WEIGHT) * (1.0 + random_f64(0ul, place)));
            if (collides) {
                if (collide(p, u, v, w, edges, cross, total, reactions, mass, yield, fresh, control, capacity) != 1)
                    break;
                continue;
            }
            if (ends) {
                copy_to(census + place_for(control, CENSUS, capacity) * WORDS, p);
                break;
            }
            const uint up = (axis == 0 ? u : axis == 1 ? v : w) > 0.0;
            const ulong cell = axis == 0 ? x : axis == 1 ? y : z, next = cell + (up ? 1 : -1);
            SET(p, POSITION + axis, (double)(cell + up) * side);
            if (next >= cells) { /* also below 0 */
                SET(p, VELOCITY + axis, -NUMBER(p, VELOCITY + axis));
                continue;
            }
            if (axis == 2) p[CELL_Z] = (p[CELL_Z] >> 32 << 32) | next;
            if (axis == 1) p[CELL_XY] = (p[CELL_XY] & 0xfffffffful) | next << 32;
            if (axis == 0) p[CELL_XY] = (p[CELL_XY] >> 32 << 32) | next;
            if (next - along(origin, axis) < along(extent, axis)) continue;
            const uint slot = slots >> 4 * (2 * axis + up) & 15u;
            queue[slot * room + place_for(control, QUEUED + slot, room)] = (uint)i;
            break;
        }
    }
}
