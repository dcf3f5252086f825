#include "host/kernels.hpp"

#include <atomic>
#include <bit>
#include <cmath>

#include "host/entries.hpp"
#include "host/team.hpp"

// The kernels, compiled with the host prelude. Kernels that need thread groups cannot run on the host.
namespace firsttouch::kernels {
#include "prelude.host.h"
#include "common.h"
#include "pattern.c"
#include "chase.c"
#include "stream_data.c"
#include "codegen.c"
#include "halves.c"
#include "migration.c"
#include "histogram.c"
#include "caching.c"
#include "locking.c"
#include "collective.c"
#include "port.c"
}  // namespace firsttouch::kernels

namespace firsttouch {

thread_local HostPlace host_place;

double run_on(Team& team, HostKernel kernel, void** arguments) {
    const auto members = static_cast<unsigned long>(team.size());
    return team.run([&](int member) {
        host_place = {static_cast<unsigned long>(member), members};
        kernel(arguments);
    });
}

HostKernel find_host_kernel(const std::string& name) {
// clang-format off
#define ENTRY(kernel) {#kernel, &invoke<kernels::kernel>}
    static const HostKernels package_kernels = {
        ENTRY(fill_words), ENTRY(fill_seeded), ENTRY(check_words), ENTRY(touch_pages), ENTRY(check_pages),
        ENTRY(stream_sum), ENTRY(stream_expect), ENTRY(chase_write),  ENTRY(chase_check), ENTRY(stream_fill), ENTRY(stream_check),
        ENTRY(codegen_add_u64_device), ENTRY(codegen_add_u64_system), ENTRY(codegen_add_f64_device),
        ENTRY(codegen_add_f64_system), ENTRY(codegen_load_vector), ENTRY(codegen_load_uncached),
        ENTRY(halves_fill), ENTRY(halves_increment), ENTRY(halves_check),
        ENTRY(migration_update), ENTRY(migration_add), ENTRY(migration_read), ENTRY(migration_sum),
        ENTRY(migration_check),
        ENTRY(histogram_zero), ENTRY(histogram_sum_u64), ENTRY(histogram_sum_f64),
        ENTRY(caching_cached), ENTRY(caching_uncached), ENTRY(caching_bypass_l1), ENTRY(caching_check),
        ENTRY(locking_compete), ENTRY(locking_check_region), ENTRY(locking_check_privates),
        ENTRY(collective_fill), ENTRY(collective_check),
        ENTRY(port_sum), ENTRY(port_add), ENTRY(port_step), ENTRY(port_store), ENTRY(port_raise), ENTRY(port_filter),
        ENTRY(port_filter_symbol), ENTRY(port_distances)};
#undef ENTRY
    // clang-format on
    static const HostKernels app_kernels = application_kernels();
    for (const HostKernels* table : {&package_kernels, &app_kernels})
        if (const auto entry = table->find(name); entry != table->end()) return entry->second;
    return nullptr;
}

}  // namespace firsttouch
