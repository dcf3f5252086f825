// firsttouch._core: what the native folders offer, by plain names. No logic here.
#include <nanobind/nanobind.h>

#include "bindings/bindings.hpp"

NB_MODULE(_core, module) {
    module.doc() = "Native core of firsttouch: devices, the allocation guard, measuring loops.";
    firsttouch::bind_device(module);
    firsttouch::bind_probe(module);
    firsttouch::bind_events(module);
    firsttouch::bind_math(module);
}
