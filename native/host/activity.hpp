// What the processors do while something is measured: loads through the data TLB, and interrupts.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace firsttouch {

// Why loads through the data TLB cannot be counted here, or ''.
std::string why_no_tlb_loads();

// Counts from its construction until end(). Source of the counts: perf_event_open(2) for every thread that this process
// has or starts, in the kernel too where that is allowed, and /proc/interrupts for the whole machine.
class HostActivity {
  public:
    HostActivity();
    HostActivity(const HostActivity&) = delete;
    HostActivity& operator=(const HostActivity&) = delete;
    ~HostActivity();

    // Returns interrupts_per_s and, where they can be counted, tlb_loads_per_s, tlb_loads_per_mib of `bytes`, and
    // tlb_loads_in_kernel, whether those of the kernel are among them.
    std::map<std::string, double> end(double bytes);

  private:
    bool in_kernel_;
    std::vector<int> events_;
    double interrupts_ = 0, start_ = 0;
};

}  // namespace firsttouch
