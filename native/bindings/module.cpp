// Entry of firsttouch._core, the Python module. The bindings convert and check arguments, keep owners alive and release
// the interpreter's lock; what they call is in the folders beside this one.
#include <nanobind/nanobind.h>

#include "bindings/bindings.hpp"

NB_MODULE(_core, module) {
    module.doc() = "Native core of firsttouch: devices, the allocation guard, measuring loops.";
    firsttouch::bind_device(module);
    firsttouch::bind_probe(module);
    firsttouch::bind_events(module);
    firsttouch::bind_math(module);
}
