// Finds which 64 KiB of each block the kernels of a program read and write, and writes them into the journal: in a run
// of its own, because NVIDIA's Sanitizer API and CUPTI exclude each other.
//
// A patch (granules.cu of the package) sets one bit for each 64 KiB. Looked at are the first launches of each kernel
// with one grid, and ever fewer of the later ones; the patch returns at once in the rest. A launch's bits are fetched
// where the program waits for it anyway, so that nothing that the program does comes in another order. The kernels of a
// graph share one table, so that they are told only of graphs with a single kernel.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "device/device.hpp"
#include "profile/granules.h"
#include "profile/inject/journal.hpp"
#include "profile/inject/places.hpp"
#include "profile/inject/sanitizer_api.hpp"

namespace firsttouch::inject {

class Exact {
  public:
    // patch: the compiled file. Throws Unavailable with the reason if this process cannot be looked at.
    static std::unique_ptr<Exact> start(const sanitizer::Functions& api, Journal& journal, std::string patch);
    Exact(const Exact&) = delete;
    Exact& operator=(const Exact&) = delete;

    // Fetches what is still in the memory of the devices. Nothing is looked at any more.
    void finish() noexcept;

  private:
    // What a record `step` tells.
    enum class Did : std::uint8_t { begin_block = 1, end_block, copy_in, copy_out, copy_within, fill };
    using Size = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;
    struct Block {
        std::uint64_t bytes;
        std::uint32_t flags;
    };
    struct Looked {  // a launch whose bits are in the memory of its device
        std::uint32_t launch;
        sanitizer::Context context;
        sanitizer::StreamHandle stream;
        void* table;
        std::vector<std::uint8_t> content;  // the table as it was copied there
        std::size_t count, words;           // blocks; words of bits for reads, and as many for writes
        bool is_mixed = false;              // others of its graph have the same table
    };

    Exact(const sanitizer::Functions& api, Journal& journal, std::string patch);

    static void on_callback(void* exact, int domain, std::uint32_t id, const void* data) noexcept;
    void called_back(int domain, std::uint32_t id, const void* data);
    void resource(std::uint32_t id, const void* data);
    void patch(const sanitizer::ModuleData& module);
    void begin_block(const sanitizer::MemoryData& memory);
    void end_block(const sanitizer::MemoryData& memory);
    void copy(const sanitizer::CopyData& copy);
    void fill(const sanitizer::FillData& fill);
    void launch(const sanitizer::LaunchData& launch, bool of_graph);
    bool look(const sanitizer::LaunchData& launch, sanitizer::StreamHandle stream);
    bool look_in_graph(const sanitizer::LaunchData& launch, bool is_chosen);
    void step(Did what, std::uint64_t address, std::uint64_t bytes, std::uint32_t flags = 0);
    template <class Condition>
    void fetch(Condition condition);
    void write(const Looked& looked);
    void write_runs(const Looked& looked, const GranuleBlock& block, const std::uint32_t* bits, bool is_written);
    void fail(sanitizer::Result result, const char* call);

    const sanitizer::Functions& api_;
    Journal& journal_;
    const std::string patch_;
    const pid_t process_;
    sanitizer::Subscriber subscriber_ = nullptr;
    Texts texts_;
    std::mutex mutex_;
    bool failed_ = false;
    std::map<sanitizer::Context, bool> patched_;                         // contexts with the patch
    std::map<std::uint64_t, Block> blocks_;                              // alive, by address
    std::map<std::tuple<std::string, Size, Size>, std::uint32_t> seen_;  // launches of each kernel, grid and block
    std::set<std::string, std::less<>> by_tensor_maps_;                  // kernels
    std::vector<Looked> looked_;
    std::uint32_t launches_ = 0;
    std::uint32_t first_in_graph_ = 0;  // the first launch of the graph that is being launched; 0: none yet
};

// Looks at this process from here on, or says in the journal why not. patch: the compiled file.
void start_exact(const char* patch) noexcept;

}  // namespace firsttouch::inject
