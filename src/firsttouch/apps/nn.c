/* nn: the distance of every record from a query, and the k nearest. A record is 53 characters (a name of 32, a blank,
   the latitude as dd.ddddd, a blank, the longitude as ddd.ddddd, a blank, an end of line) and a distance of 4 bytes. */
#define RECORD 57
#define BLOCK 4096 /* distances of which the CPU keeps the k smallest at a time */

HELPER void write_number(GLOBAL uchar* end, uint digits, uint value) {
    for (uint k = 1; k <= digits + 1; ++k) {
        if (k == 6) {
            end[-6] = '.';
            continue;
        }
        end[-(int)k] = (uchar)('0' + value % 10);
        value /= 10;
    }
}

/* Latitude 7 to 70 and longitude 0 to 358 degrees, in steps of 1e-5, as text and as numbers. */
KERNEL nn_records(GLOBAL uchar* records, GLOBAL float* locations, ulong n, ulong key) {
    FOR_EACH(i, n) {
        const uint lat = 700000u + random_below(key, 6 * i, 6300000u), lng = random_below(key, 6 * i + 1, 35800000u);
        locations[2 * i] = (float)((double)lat / 1e5);
        locations[2 * i + 1] = (float)((double)lng / 1e5);
        GLOBAL uchar* text = records + i * RECORD;
        for (uint k = 0; k < 32; k += 8) {
            const ulong word = random_word(key, 6 * i + 2 + k / 8);
            for (uint j = 0; j < 8; ++j) text[k + j] = (uchar)('A' + (word >> 8 * j & 15));
        }
        text[32] = text[41] = text[51] = ' ';
        write_number(text + 41, 7, lat);
        write_number(text + 51, 8, lng);
        text[52] = '\n';
        for (uint k = 53; k < RECORD; ++k) text[k] = 0;
    }
}

/* Distances of records [first, first + n), two per thread. `first` is even. */
KERNEL nn_distances(GLOBAL const float* locations, GLOBAL float* distances, ulong first, ulong n, float lat,
                    float lng) {
    GLOBAL const f32x4* pairs = (GLOBAL const f32x4*)(locations + 2 * first);
    GLOBAL f32x2* results = (GLOBAL f32x2*)(distances + first);
    FOR_EACH(i, (n + 1) / 2) {
        if (2 * i + 1 < n) {
            const f32x4 at = pairs[i];
            const float y = at.x - lat, x = at.y - lng, v = at.z - lat, u = at.w - lng;
            results[i] = F32X2(SQRT_F32(y * y + x * x), SQRT_F32(v * v + u * u));
        } else {
            const ulong last = first + n - 1;
            const float y = locations[2 * last] - lat, x = locations[2 * last + 1] - lng;
            distances[last] = SQRT_F32(y * y + x * x);
        }
    }
}

HELPER void nn_insert(GLOBAL float* nearest, GLOBAL long* which, uint k, float distance, ulong i) {
    if (!(distance < nearest[k - 1])) return;
    uint at = k - 1;
    for (; at > 0 && distance < nearest[at - 1]; --at) {
        nearest[at] = nearest[at - 1];
        which[at] = which[at - 1];
    }
    nearest[at] = distance;
    which[at] = (long)i;
}

/* The k smallest distances of each block; of equal ones the first record comes first. `which` is -1 where a block has
   fewer. */
KERNEL nn_nearest(GLOBAL const float* distances, GLOBAL float* nearest, GLOBAL long* which, ulong n, uint k) {
    FOR_EACH(block, (n + BLOCK - 1) / BLOCK) {
        GLOBAL float* smallest = nearest + block * k;
        GLOBAL long* indices = which + block * k;
        for (uint j = 0; j < k; ++j) {
            smallest[j] = 3.0e38f;
            indices[j] = -1;
        }
        const ulong end = (block + 1) * BLOCK < n ? (block + 1) * BLOCK : n;
        for (ulong run = block * BLOCK; run < end; run += 64) {
            const ulong stop = run + 64 < end ? run + 64 : end;
            const float worst = smallest[k - 1];
            uint nearer = 0;
            for (ulong i = run; i < stop; ++i) nearer |= distances[i] < worst;
            for (ulong i = run; nearer && i < stop; ++i) nn_insert(smallest, indices, k, distances[i], i);
        }
    }
}
