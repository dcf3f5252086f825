#pragma once

#include <nanobind/nanobind.h>

#include "bindings/handle.hpp"

namespace firsttouch {
void bind_device(nanobind::module_& module);
void bind_comm(nanobind::module_& module);
void bind_probe(nanobind::module_& module);
void bind_events(nanobind::module_& module);
void bind_math(nanobind::module_& module);
void bind_profile(nanobind::module_& module);
void bind_perf(nanobind::module_& module);
void bind_work(nanobind::module_& module, nanobind::class_<DeviceHandle>& device,
               nanobind::class_<BufferHandle>& buffer);
}  // namespace firsttouch
