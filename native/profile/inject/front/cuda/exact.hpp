// Finds which 64 KiB of each block the kernels of a program read and write, and writes them into the journal: in a run
// of its own, because NVIDIA's Sanitizer API and CUPTI exclude each other.
//
// A patch (granules.cu of the package) sets one bit for each 64 KiB. Looked at are the first launches of each kernel
// with one grid, and ever fewer of the later ones; the patch returns at once in the rest. A launch's bits are fetched
// where the program waits for it anyway, so that nothing that the program does comes in another order. The kernels of a
// graph share one table, so that they are told only of graphs with a single kernel.
//
// No lock that a launch takes is held while the Sanitizer is called: its functions take locks of the driver, which may
// be held by a thread whose callback waits for ours.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "device/device.hpp"
#include "events/home_process.hpp"
#include "profile/granules.h"
#include "profile/inject/core/journal.hpp"
#include "profile/inject/core/places.hpp"
#include "profile/inject/front/cuda/sanitizer_api.hpp"

namespace firsttouch::inject {

class Exact {
  public:
    // patch: the compiled file. Throws Unavailable with the reason if this process cannot be looked at.
    static std::unique_ptr<Exact> start(const sanitizer::Functions& api, Journal& journal, std::string patch);
    Exact(const Exact&) = delete;
    Exact& operator=(const Exact&) = delete;

    // What has ended: the first so many launches of a stream, or of all streams of a context.
    struct Ended {
        sanitizer::Context context = nullptr;
        sanitizer::StreamHandle stream = nullptr;
        std::uint32_t launches = 0;
    };

    // Fetches what is still in the memory of the devices, if kernels end soon. Nothing is looked at any more.
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
        void* table = nullptr;
        std::size_t room = 0;               // bytes of the table's memory
        std::vector<std::uint8_t> content;  // the table as it was copied there
        std::size_t count = 0, words = 0;   // blocks; words of bits for reads, and as many for writes
        bool is_mixed = false;              // others of its graph have the same table
        bool has_stream = true;             // it was not destroyed meanwhile
    };
    struct Tables {                               // memory of a context
        std::multimap<std::size_t, void*> spare;  // by bytes: was used, and is not now
        std::uint8_t* rest = nullptr;             // was not used yet
        std::size_t bytes = 0;                    // of the rest
    };

    Exact(const sanitizer::Functions& api, Journal& journal, std::string patch);

    static void on_callback(void* exact, int domain, std::uint32_t id, const void* data) noexcept;
    // What a launch gets; no table: what it had is taken back.
    struct ToSet {
        Looked looked;
        sanitizer::Launch launch;
        sanitizer::Function function;
        sanitizer::StreamHandle stream;
    };
    // What a callback does without the mutex.
    struct ToDo {
        std::optional<ToSet> set;
        std::vector<Looked> fetch;
    };
    void called_back(int domain, std::uint32_t id, const void* data, ToDo& to_do);
    void resource(std::uint32_t id, const void* data);
    void patch(const sanitizer::ModuleData& module);
    bool prepare(sanitizer::Context context);
    void end_context(sanitizer::Context context);
    void begin_block(const sanitizer::MemoryData& memory);
    void end_block(const sanitizer::MemoryData& memory);
    void copy(const sanitizer::CopyData& copy);
    void fill(const sanitizer::FillData& fill);
    void launch(const sanitizer::LaunchData& launch, bool of_graph, ToDo& to_do);
    void look(const sanitizer::LaunchData& launch, sanitizer::StreamHandle stream, ToDo& to_do);
    void look_in_graph(const sanitizer::LaunchData& launch, bool is_chosen, ToDo& to_do);
    void set(ToSet& what);
    void step(Did what, std::uint64_t address, std::uint64_t bytes, std::uint32_t flags = 0);
    template <class Condition>
    void take(Condition condition, std::vector<Looked>& into);
    void take_ended(const Ended& ended, std::vector<Looked>& into);
    bool find_table(sanitizer::Context context, std::size_t bytes, Looked& looked);
    void fetch(std::vector<Looked>& looked) noexcept;
    void wait_and_fetch(std::vector<Looked> looked) noexcept;
    void write(const Looked& looked);
    void write_runs(const Looked& looked, const GranuleBlock& block, const std::uint32_t* bits, bool is_written);
    void say_not_waited_for();
    void fail(sanitizer::Result result, const char* call);

    const sanitizer::Functions& api_;
    Journal& journal_;
    const std::string patch_;
    const HomeProcess home_;
    sanitizer::Subscriber subscriber_ = nullptr;
    Texts texts_;
    std::atomic<bool> failed_{false};        // or finished
    std::mutex preparing_;                   // while a context gets the patch and memory; taken before the next
    std::mutex mutex_;                       // of all that follows
    std::map<std::uint64_t, Block> blocks_;  // alive, by address
    std::map<std::tuple<std::string, Size, Size>, std::uint32_t> seen_;  // launches of each kernel, grid and block
    std::set<std::string, std::less<>> by_tensor_maps_;                  // kernels
    std::vector<Looked> looked_;
    std::map<sanitizer::Context, Tables> tables_;  // of contexts with the patch
    std::uint32_t launches_ = 0;
    bool has_said_so_ = false;
};

// Looks at this process from here on, or says in the journal why not. patch: the compiled file.
void start_exact(const char* patch) noexcept;

}  // namespace firsttouch::inject
