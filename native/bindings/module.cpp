// The entry point of the Python module firsttouch._core. The bindings convert and check arguments, keep owners alive
// and release the GIL. The functions they call are in the other folders of native.
#include <nanobind/nanobind.h>

#include "bindings/bindings.hpp"

NB_MODULE(_core, module) {
    module.doc() = "Native module of firsttouch: devices, the allocation guard, probes.";
    firsttouch::bind_device(module);
    firsttouch::bind_comm(module);
    firsttouch::bind_probe(module);
    firsttouch::bind_events(module);
    firsttouch::bind_math(module);
    firsttouch::bind_profile(module);
    firsttouch::bind_perf(module);
}
