// What granules.cu and the library that is loaded into the target (native/profile/inject/front/cuda/exact.cpp) share:
// the table of one launch, in the memory of its device.
#pragma once

enum { granule_shift = 16 };  // 64 KiB

struct GranuleBlock {
    unsigned long long begin, end;  // addresses
    unsigned long long first;       // the number of its first granule; each block begins a new word of bits
};

struct GranuleTable {
    unsigned long long outside;  // accesses beside all blocks
    unsigned long long opaque;   // copies whose addresses only a tensor map has
    unsigned int* read;          // a bit for each granule
    unsigned int* written;
    unsigned long long count;           // blocks
    const struct GranuleBlock* blocks;  // by address
};
