#pragma once

#include <nanobind/nanobind.h>

namespace firsttouch {
void bind_device(nanobind::module_& module);
void bind_probe(nanobind::module_& module);
void bind_events(nanobind::module_& module);
}  // namespace firsttouch
