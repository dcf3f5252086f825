// The library that drivers load into a program: its journal, NVTX's tables, and the trace on a stand-in for CUPTI.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "cupti_standin.hpp"
#include "journals.hpp"
#include "profile/inject/core/journal.hpp"
#include "profile/inject/front/cuda/nvtx_api.hpp"
#include "profile/inject/front/cuda/trace.hpp"
#include "support.hpp"

extern "C" void standin_init();
extern "C" void standin_allocate(std::uint32_t, int, std::uint64_t, std::uint64_t);
extern "C" void standin_copy(std::uint8_t, std::uint64_t);
extern "C" void standin_kernel(const char*, int);
extern "C" int standin_call(std::uint32_t, const char*, const void*, int (*)(void*), void*);
extern "C" void standin_copy_between(std::uint32_t, std::uint32_t, std::uint64_t);
extern "C" int standin_launch_new_graph();
extern "C" void standin_move(int, std::uint64_t, std::uint64_t, std::uint32_t);
extern "C" int InitializeInjectionNvtx2(firsttouch::nvtx::GetExportTable);

namespace firsttouch::inject {
namespace {

namespace fs = std::filesystem;

// A folder that is empty when a test begins.
class Inject : public testing::Test {
  protected:
    void SetUp() override {
        const auto* const test = testing::UnitTest::GetInstance()->current_test_info();
        folder_ = fs::path(testing::TempDir()) / ("firsttouch-inject-" + std::string(test->name()));
        fs::remove_all(folder_);
        fs::create_directories(folder_);
    }
    void TearDown() override { fs::remove_all(folder_); }

    fs::path folder_;
};

std::vector<fs::path> files_of(const fs::path& folder) {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
    std::ranges::sort(files);
    return files;
}

bool add(Journal& journal, std::uint64_t stamp, std::uint64_t time, std::string_view more = {}) {
    const ClocksRecord record{stamp, time};
    return journal.append(Kind::clocks, {Journal::bytes_of(record), more});
}

constexpr Limits small{.chunk_bytes = 64 << 10, .most_bytes = 1 << 30};

TEST_F(Inject, RecordsOfManyThreadsAreAllThereInTheOrderOfEachThread) {
    constexpr std::uint64_t threads = 8, each = 3000;
    Journal journal(folder_, small);
    std::vector<std::thread> running;
    for (std::uint64_t i = 0; i < threads; ++i)
        running.emplace_back([&, i] {
            const std::string more(i * 13, 'x');
            for (std::uint64_t j = 0; j < each; ++j) EXPECT_TRUE(add(journal, i, j, more));
        });
    for (std::thread& thread : running) thread.join();
    ASSERT_EQ(files_of(folder_).size(), 1u);
    const Read read = read_journal(files_of(folder_).front());
    EXPECT_EQ(read.header.process, std::uint32_t(getpid()));
    EXPECT_EQ(read.header.left_out, 0u);
    std::map<std::uint64_t, std::uint64_t> next;
    for (const auto& [kind, content] : read.records) {
        const auto record = start_of<ClocksRecord>(content);
        EXPECT_EQ(record.time, next[record.stamp]++);
        EXPECT_EQ(content.substr(sizeof record, record.stamp * 13), std::string(record.stamp * 13, 'x'));
    }
    EXPECT_EQ(read.records.size(), threads * each);
}

TEST_F(Inject, AJournalThatIsFullCountsWhatItLeavesOut) {
    Journal journal(folder_, {.chunk_bytes = 64 << 10, .most_bytes = 300 << 10});
    std::uint64_t written = 0;
    for (std::uint64_t i = 0; i < 20'000; ++i) written += add(journal, i, i) ? 1 : 0;
    const Read read = read_journal(files_of(folder_).front());
    EXPECT_EQ(read.records.size(), written);
    EXPECT_LT(written, 20'000u);
    EXPECT_EQ(read.header.left_out, 20'000 - written);
    EXPECT_LE(fs::file_size(files_of(folder_).front()), 300u << 10);
}

TEST_F(Inject, TheHeaderStatesTheBytesOfAllRecordsAndTheirSum) {
    Journal journal(folder_, small);
    for (std::uint64_t i = 0; i < 5000; ++i) {
        add(journal, i, i, std::string(i % 100, 'x'));
        if (i % 1000 != 999) continue;
        std::ifstream file(files_of(folder_).front(), std::ios::binary);
        const std::string all(std::istreambuf_iterator<char>(file), {});
        const Read read = read_journal(files_of(folder_).front());
        const std::size_t bytes = (read.header.complete >> 32) * 8;
        const char* const records = all.data() + read.header.header_bytes;
        RecordHeader next;
        std::memcpy(&next, records + bytes, sizeof next);
        EXPECT_EQ(next.size, 0u);
        EXPECT_EQ(add_to_sum(0, records, bytes), std::uint32_t(read.header.complete));
        EXPECT_EQ(add_to_sum(add_to_sum(0, records, 80), records + 80, bytes - 80),
                  std::uint32_t(read.header.complete));
    }
}

TEST_F(Inject, ARecordThatIsTooLongIsLeftOut) {
    Journal journal(folder_, small);
    EXPECT_TRUE(add(journal, 1, 1));
    EXPECT_FALSE(add(journal, 2, 2, std::string(small.chunk_bytes, 'x')));
    EXPECT_TRUE(add(journal, 3, 3));
    const Read read = read_journal(files_of(folder_).front());
    EXPECT_EQ(read.records.size(), 2u);
    EXPECT_EQ(read.header.left_out, 1u);
}

TEST_F(Inject, EveryForkedProcessHasAFileOfItsOwn) {
    Journal journal(folder_, small);
    const auto add_many = [&](std::uint64_t who) {
        for (std::uint64_t i = 0; i < 5000; ++i) add(journal, who, i);
    };
    add_many(1);
    const pid_t child = fork();
    if (child == 0) {
        add_many(2);
        const pid_t grandchild = fork();
        if (grandchild == 0) {
            add_many(3);
            _exit(0);
        }
        waitpid(grandchild, nullptr, 0);
        add_many(2);
        _exit(0);
    }
    add_many(1);
    waitpid(child, nullptr, 0);
    std::map<std::uint64_t, std::size_t> of;
    for (const fs::path& path : files_of(folder_)) {
        const Read read = read_journal(path);
        const auto who = start_of<ClocksRecord>(read.records.front().second).stamp;
        for (const auto& [kind, content] : read.records) EXPECT_EQ(start_of<ClocksRecord>(content).stamp, who);
        of[who] = read.records.size();
    }
    EXPECT_EQ(of, (std::map<std::uint64_t, std::size_t>{{1, 10'000}, {2, 10'000}, {3, 5000}}));
}

TEST_F(Inject, AProcessNumberThatComesAgainDoesNotOverwrite) {
    for (std::uint64_t i = 0; i < 3; ++i) {
        Journal journal(folder_, small);
        add(journal, i, 0);
    }
    ASSERT_EQ(files_of(folder_).size(), 3u);
    for (const fs::path& path : files_of(folder_)) EXPECT_EQ(read_journal(path).records.size(), 1u);
}

// A daemon closes all descriptors, and its next file gets the number that the journal would have had.
TEST_F(Inject, FilesOfTheProgramAreNeverTouched) {
    const fs::path own = folder_ / "own";
    Journal journal(folder_, small);
    add(journal, 1, 1);
    int files[8];
    for (int& file : files) file = open(own.c_str(), O_RDWR | O_CREAT, 0600);
    for (std::uint64_t i = 0; i < 10'000; ++i) EXPECT_TRUE(add(journal, i, i));
    for (const int file : files) close(file);
    EXPECT_EQ(fs::file_size(own), 0u);
}

TEST_F(Inject, AFileThatWasReplacedIsNotTouched) {
    Journal journal(folder_, small);
    add(journal, 1, 1);
    const fs::path path = files_of(folder_).front();
    fs::remove(path);
    std::ofstream(path) << "theirs";
    for (std::uint64_t i = 0; i < 10'000; ++i) add(journal, i, i);
    EXPECT_EQ(fs::file_size(path), 6u);
}

TEST_F(Inject, TheLimitForFilesDoesNotKillTheProgram) {
    rlimit before{};
    getrlimit(RLIMIT_FSIZE, &before);
    const rlimit limit{200 << 10, before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
    Journal journal(folder_, small);
    std::uint64_t written = 0;
    for (std::uint64_t i = 0; i < 20'000; ++i) written += add(journal, i, i) ? 1 : 0;
    setrlimit(RLIMIT_FSIZE, &before);
    EXPECT_GT(written, 0u);
    EXPECT_LT(written, 20'000u);
    EXPECT_EQ(read_journal(files_of(folder_).front()).records.size(), written);
}

TEST_F(Inject, AFolderThatCannotBeUsedIsSilent) {
    for (const std::string& folder : {std::string(), std::string("."), (folder_ / "missing").string(),
                                      std::string("/dev/null"), std::string(5000, '/')}) {
        Journal journal(folder, small);
        EXPECT_FALSE(add(journal, 1, 1));
    }
    EXPECT_TRUE(files_of(folder_).empty());
}

// NVTX's side: the tables of the functions that a program calls.
struct Tables {
    std::array<nvtx::FunctionPointer, 16> core{}, core2{};
    std::array<nvtx::FunctionPointer*, 16> core_places{}, core2_places{};
};
Tables tables;

int module_table(nvtx::Module module, nvtx::FunctionTable* table, unsigned* size) {
    if (module != nvtx::module_core && module != nvtx::module_core2) return 0;
    *table = module == nvtx::module_core ? tables.core_places.data() : tables.core2_places.data();
    *size = 16;
    return 1;
}
constexpr nvtx::Callbacks callbacks{sizeof(nvtx::Callbacks), &module_table};
const void* export_table(std::uint32_t id) { return id == nvtx::callbacks_table ? &callbacks : nullptr; }

template <class F>
F* core(unsigned id) {
    return reinterpret_cast<F*>(tables.core[id]);
}
template <class F>
F* core2(unsigned id) {
    return reinterpret_cast<F*>(tables.core2[id]);
}

void send_ranges() {
    using nvtx::EventAttributes;
    void* const domain = core2<void*(const char*)>(nvtx::domain_create_a)("domain");
    EventAttributes event{};
    event.size = sizeof event;
    event.message_type = nvtx::message_registered;
    event.message.registered = core2<void*(const void*, const char*)>(nvtx::domain_register_string_a)(domain, "text");
    core<int(const char*)>(nvtx::range_push_a)("outer");
    core<int(const wchar_t*)>(nvtx::range_push_w)(L"\u00e4\u20ac\U0001F600");
    core2<int(const void*, const EventAttributes*)>(nvtx::domain_range_push_ex)(domain, &event);
    core2<int(const void*)>(nvtx::domain_range_pop)(domain);
    core<int()>(nvtx::range_pop)();
    core<int()>(nvtx::range_pop)();
    const auto range = core<std::uint64_t(const char*)>(nvtx::range_start_a)(std::string(5000, 'x').c_str());
    core<void(std::uint64_t)>(nvtx::range_end)(range);
    EventAttributes old{};  // of a version without a message
    old.size = 16;
    core<void(const EventAttributes*)>(nvtx::mark_ex)(&old);
    core<void(const EventAttributes*)>(nvtx::mark_ex)(nullptr);
    core<void(const char*)>(nvtx::mark_a)(nullptr);
}

// The journal of the process is opened once, in the folder that is named at that time.
class ProcessJournal : public testing::Environment {
  public:
    ProcessJournal() { setenv("FIRSTTOUCH_PROFILE", folder.path.c_str(), 1); }
    TemporaryFolder folder;
};
const auto* const process_journal = static_cast<ProcessJournal*>(testing::AddGlobalTestEnvironment(new ProcessJournal));

TEST_F(Inject, RangesSentThroughTheTablesOfNvtx) {
    for (std::size_t i = 1; i < 16; ++i) {
        tables.core_places[i] = &tables.core[i];
        tables.core2_places[i] = &tables.core2[i];
    }
    ASSERT_EQ(InitializeInjectionNvtx2(&export_table), 1);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back(&send_ranges);
    for (std::thread& thread : threads) thread.join();
    std::map<std::uint32_t, std::vector<std::string>> of_thread;
    for (const auto& [kind, content] : read_journal(files_of(process_journal->folder.path).front()).records) {
        if (kind != Kind::mark) continue;
        const auto mark = start_of<MarkRecord>(content);
        const std::string name = content.substr(sizeof mark, mark.name_bytes);
        const std::string domain = content.substr(sizeof mark + mark.name_bytes, mark.domain_bytes);
        const std::string shown = name.size() > 20 ? std::to_string(name.size()) : name;
        of_thread[mark.thread].push_back("bei"[mark.what] + (":" + shown + "@" + domain));
    }
    ASSERT_EQ(of_thread.size(), 4u);
    for (const auto& [thread, marks] : of_thread)
        EXPECT_EQ(marks, (std::vector<std::string>{"b:outer@", "b:ä€😀@", "b:text@domain", "e:@domain", "e:@", "e:@",
                                                   "b:1000@", "e:@", "i:@", "i:@", "i:@"}));
}

// Records from several threads while another flushes, until the trace is finished.
TEST_F(Inject, TheTraceWritesEveryRecordOnce) {
    constexpr int threads = 4, each = 2000;
    const ScopedVariable quiet("STANDIN_CUPTI_REPEAT", "0");
    Journal journal(folder_, small);
    Recording recording(journal);
    const std::unique_ptr<Trace> trace = Trace::start(standin(), recording);
    standin_init();
    std::vector<std::thread> running;
    for (int i = 0; i < threads; ++i)
        running.emplace_back([] {
            for (int j = 0; j < each; ++j) {
                standin_copy(1, std::uint64_t(j));
                standin_kernel(j % 2 == 0 ? "even" : "odd", 1);
                standin_move(1, std::uint64_t(j) << 12, 4096, 2);
                if (j % 100 == 0) standin_allocate(243, 3, std::uint64_t(j), 64);
                if (j % 500 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(200));
            }
        });
    for (std::thread& thread : running) thread.join();
    trace->finish();
    trace->finish();
    std::map<Kind, int> count;
    for (const auto& [kind, content] : read_journal(files_of(folder_).front()).records) ++count[kind];
    EXPECT_EQ(count[Kind::copy], threads * each);
    EXPECT_EQ(count[Kind::kernel], threads * each);
    EXPECT_EQ(count[Kind::event], threads * each);
    EXPECT_EQ(count[Kind::memory], threads * each / 100);
    EXPECT_EQ(count[Kind::call], threads * each / 100);
    EXPECT_GE(count[Kind::site], 1);
    EXPECT_GE(count[Kind::clocks], 3);
    EXPECT_EQ(count[Kind::lost], 0);
}

// A kernel that runs when the program ends, and one that has ended.
TEST_F(Inject, WorkWithoutAnEndIsUnfinishedAndNotLost) {
    const ScopedVariable quiet("STANDIN_CUPTI_REPEAT", "0");
    Journal journal(folder_, small);
    Recording recording(journal);
    const std::unique_ptr<Trace> trace = Trace::start(standin(), recording);
    standin_init();
    standin_kernel("ended", 1);
    standin_kernel("runs", 0);
    standin_kernel("waits", 0);
    trace->finish();
    std::map<Kind, std::uint64_t> records;
    for (const auto& [kind, content] : read_journal(files_of(folder_).front()).records) {
        if (kind == Kind::lost) records[kind] += start_of<LostRecord>(content).records;
        if (kind == Kind::unfinished) records[kind] += start_of<UnfinishedRecord>(content).records;
        if (kind == Kind::kernel) ++records[kind];
    }
    EXPECT_EQ(records, (std::map<Kind, std::uint64_t>{{Kind::kernel, 1}, {Kind::unfinished, 2}}));
}

std::map<Kind, int> counts(const fs::path& folder) {
    std::map<Kind, int> count;
    for (const fs::path& path : files_of(folder))
        for (const auto& [kind, content] : read_journal(path).records) ++count[kind];
    return count;
}

// With some versions of CUPTI the program would end: where copies between GPUs are recorded, they unmap at a flush what
// the next new graph writes its times to.
TEST_F(Inject, AGraphIsLaunchedAfterCopiesWereFlushed) {
    const ScopedVariable quiet("STANDIN_CUPTI_REPEAT", "0");
    for (const auto& [version, has_both] : std::map<std::string, bool>{{"26", true},
                                                                       {"27", false},
                                                                       {"28", false},
                                                                       {"130000", false},
                                                                       {"130101", false},
                                                                       {"130200", true},
                                                                       {"130500", true}}) {
        const ScopedVariable of("STANDIN_CUPTI_VERSION", version);
        for (const int kind : {cupti::copies, cupti::copies_between_devices}) cuptiActivityDisable(kind);
        const fs::path folder = folder_ / version;
        fs::create_directories(folder);
        Journal journal(folder, small);
        Recording recording(journal);
        const std::unique_ptr<Trace> trace = Trace::start(standin(), recording);
        standin_init();
        standin_copy(1, 64);
        while (counts(folder)[Kind::copy] == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        EXPECT_EQ(standin_launch_new_graph(), 0) << version;
        standin_copy_between(0, 1, 64);
        trace->finish();
        EXPECT_EQ(counts(folder)[Kind::copy], has_both ? 2 : 1) << version;
    }
}

// What threads do with graphs, and whether one made nodes while another did, or launched.
struct GraphWork {
    std::atomic<int> launching{0}, making{0};
    std::atomic<bool> met{false};

    template <class Body>
    int call(std::uint32_t id, const void* parameters, Body body) {
        const auto run = [](void* of) { return (*static_cast<Body*>(of))(), 0; };
        return standin_call(id, "call", parameters, run, &body);
    }
    void launch() {
        cupti::GraphLaunch parameters{};
        call(514, &parameters, [this] { be_in(launching, false); });
    }
    void make(std::uint32_t id, const void* parameters = nullptr) {
        call(id, parameters, [this] { be_in(making, true); });
    }
    void be_in(std::atomic<int>& mine, bool is_making) {
        ++mine;
        for (int i = 0; i < 20; ++i) {
            if (is_making ? launching > 0 || making > 1 : making > 0) met = true;
            std::this_thread::yield();
        }
        --mine;
    }
};

// CUPTI's table of nodes has no lock.
TEST_F(Inject, NodesOfGraphsAreMadeByOneThreadWhileNoneLaunches) {
    const ScopedVariable quiet("STANDIN_CUPTI_REPEAT", "0");
    Journal journal(folder_, small);
    Recording recording(journal);
    const std::unique_ptr<Trace> trace = Trace::start(standin(), recording);
    standin_init();
    GraphWork work;
    cupti::Stream captured{reinterpret_cast<cupti::Handle>(8)};
    cupti::Launch launch{};
    launch.stream = captured.stream;
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i)
        threads.emplace_back([&] {
            for (int j = 0; j < 200; ++j) work.launch();
        });
    for (const std::uint32_t id : {502u, 523u, 643u, 712u})
        threads.emplace_back([&, id] {
            cupti::NewGraph graph{};
            cupti::Handle executable = nullptr;
            graph.executable = &executable;
            for (int j = 0; j < 50; ++j) work.make(id, id == 643 ? &graph : nullptr);
        });
    threads.emplace_back([&] {
        work.call(539, &captured, [] {});
        for (int j = 0; j < 50; ++j) work.make(307, &launch);
        work.call(497, &captured, [] {});
    });
    for (std::thread& thread : threads) thread.join();
    EXPECT_FALSE(work.met);
    trace->finish();
}

TEST_F(Inject, ALaunchOfAGraphMayWaitForAnotherThreadThatMakesOne) {
    const ScopedVariable quiet("STANDIN_CUPTI_REPEAT", "0");
    Journal journal(folder_, small);
    Recording recording(journal);
    const std::unique_ptr<Trace> trace = Trace::start(standin(), recording);
    standin_init();
    GraphWork work;
    std::atomic<bool> is_launching{false}, is_made{false};
    std::thread other([&] {
        while (!is_launching) std::this_thread::yield();
        work.make(502);
        is_made = true;
    });
    cupti::GraphLaunch parameters{};
    work.call(514, &parameters, [&] {
        is_launching = true;
        while (!is_made) std::this_thread::yield();
    });
    other.join();
    work.launch();
    trace->finish();
}

// CUPTI may still call back in a child, and flush at its end.
TEST_F(Inject, AForkedProcessHasNoTrace) {
    const ScopedVariable quiet("STANDIN_CUPTI_REPEAT", "0");
    Journal journal(folder_, small);
    Recording recording(journal);
    const std::unique_ptr<Trace> trace = Trace::start(standin(), recording);
    standin_init();
    standin_allocate(243, 3, 4096, 64);
    const pid_t child = fork();
    if (child == 0) {
        standin_allocate(243, 3, 8192, 64);
        standin_copy(1, 64);
        cuptiActivityFlushAll(1);
        trace->finish();
        _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    trace->finish();
    EXPECT_EQ(files_of(folder_).size(), 1u);
    EXPECT_EQ(counts(folder_)[Kind::memory], 1);
    EXPECT_EQ(counts(folder_)[Kind::copy], 0);
}

}  // namespace
}  // namespace firsttouch::inject
