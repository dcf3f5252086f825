// The second run under the Sanitizer API waits for nothing that the program does not wait for: on functions that stand
// in for the API, with kernels that end when a test says so.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "journals.hpp"
#include "profile/inject/front/cuda/exact.hpp"
#include "support.hpp"

namespace firsttouch::inject {
namespace {

using namespace sanitizer;

template <class Handle>
Handle handle(std::uintptr_t number) {
    return reinterpret_cast<Handle>(number);
}

// What the API was asked, and which streams have kernels that still run.
struct Played {
    std::mutex mutex;
    std::condition_variable changed;
    Callback callback = nullptr;
    void* user = nullptr;
    std::set<StreamHandle> running;
    std::set<void*> copied_out;
    int allocated = 0;
    std::function<void()> in_copy_in;
    std::atomic<int> waits{0};

    void call(int domain, std::uint32_t id, const void* data) const { callback(user, domain, id, data); }
    void end_kernels(StreamHandle stream) {
        const std::scoped_lock lock(mutex);
        running.erase(stream);
        changed.notify_all();
    }
    void wait_for(StreamHandle stream) {
        std::unique_lock lock(mutex);
        ++waits;
        changed.wait(lock, [&] { return !running.contains(stream); });
    }
};
Played* played = nullptr;

Functions functions() {
    Functions api;
    api.get_result_string = [](Result, const char**) { return 1; };
    api.subscribe = [](Subscriber*, Callback callback, void* user) {
        played->callback = callback, played->user = user;
        return 0;
    };
    api.enable_domain = [](std::uint32_t, Subscriber, int) { return 0; };
    api.add_patches = [](const char*, Context) { return 0; };
    api.patch_instructions = [](int, Module, const char*) { return 0; };
    api.patch_module = [](Module) { return 0; };
    api.set_launch_data = [](Launch, Function, StreamHandle, const void*) { return 0; };
    api.allocate = [](Context, void** address, std::size_t bytes) {
        ++played->allocated;
        *address = std::calloc(1, bytes);
        return 0;
    };
    api.synchronise = [](StreamHandle stream) { return played->wait_for(stream), 0; };
    api.copy_in = [](void*, void*, std::size_t, StreamHandle) {
        if (const auto act = std::exchange(played->in_copy_in, nullptr)) act();
        return 0;
    };
    api.copy_out = [](void*, void* source, std::size_t, StreamHandle) {
        const std::scoped_lock lock(played->mutex);
        played->copied_out.insert(source);
        return 0;
    };
    return api;
}

class ExactThreads : public testing::Test {
  protected:
    void SetUp() override {
        played = &played_;
        exact_ = Exact::start(kept_.api, kept_.journal, "patch").release();
        const ModuleData module{context, handle<Module>(3), 0, nullptr};
        played_.call(resources, module_loaded, &module);
    }
    void TearDown() override { std::filesystem::remove_all(kept_.folder.path); }

    void launch(std::uintptr_t stream, const char* name = "kernel") {
        {
            const std::scoped_lock lock(played_.mutex);
            played_.running.insert(handle<StreamHandle>(stream));
        }
        const LaunchData data = launch_of(stream, name);
        played_.call(launches, launch_begins, &data);
    }
    static LaunchData launch_of(std::uintptr_t stream, const char* name) {
        LaunchData data{};
        data.context = context, data.name = name;
        data.handle = data.graph_handle = handle<StreamHandle>(stream);
        for (int i = 0; i < 3; ++i) data.grid[i] = data.block[i] = 1;
        return data;
    }
    void begin_graph() {
        const char any = 0;
        played_.call(graphs, graph_begins, &any);
    }
    void launch_node(std::uintptr_t stream, const char* name) {
        NodeData data{};
        data.type = kernel_node, data.launch = launch_of(stream, name);
        played_.call(graphs, node_begins, &data);
    }
    // The program waits for its kernels, and then the API tells.
    void synchronise(std::uintptr_t stream) {
        played_.end_kernels(handle<StreamHandle>(stream));
        const SynchronisationData data{context, nullptr, handle<StreamHandle>(stream)};
        played_.call(synchronisations, stream_synchronised, &data);
    }
    void synchronise_all() {
        const SynchronisationData data{context, nullptr, nullptr};
        played_.call(synchronisations, context_synchronised, &data);
    }
    void destroy_stream(std::uintptr_t stream) {
        const StreamData data{context, nullptr, handle<StreamHandle>(stream)};
        played_.call(resources, stream_ends, &data);
    }
    void free_memory() {
        MemoryData data{};
        data.context = context;
        played_.call(resources, memory_freed, &data);
    }
    void copy_to_host(std::uintptr_t stream) {
        CopyData data{};
        data.source_context = context, data.source_handle = handle<StreamHandle>(stream);
        data.direction = device_to_host, data.bytes = 64;
        played_.call(copies, copy_begins, &data);
        played_.end_kernels(handle<StreamHandle>(stream));
    }
    // Numbers of the launches of which it is known what they use.
    std::set<std::uint32_t> fetched() const {
        std::set<std::uint32_t> numbers;
        for (const std::string& content : records_of(kept_.folder.path, Kind::fetched))
            numbers.insert(start_of<FetchedRecord>(content).launch);
        return numbers;
    }

    static inline const auto context = handle<Context>(1);
    // Never freed: a thread may still wait for a kernel.
    struct Kept {
        const Functions api = functions();
        TemporaryFolder folder;
        Journal journal{folder.path.string()};
        Played played;
    };
    static Kept& keep() {
        static auto& all = *new std::vector<std::unique_ptr<Kept>>;
        return *all.emplace_back(std::make_unique<Kept>());
    }
    Kept& kept_ = keep();
    Played& played_ = kept_.played;
    Exact* exact_ = nullptr;
};

// As where collective kernels of two GPUs of a process wait for each other.
TEST_F(ExactThreads, AKernelMayWaitForWhatAnotherThreadLaunches) {
    launch(10);
    std::thread other([&] {
        while (played_.waits == 0) std::this_thread::yield();
        launch(20);
        played_.end_kernels(handle<StreamHandle>(10));
    });
    exact_->finish();
    other.join();
    EXPECT_EQ(fetched(), (std::set<std::uint32_t>{1}));
}

// The driver may hold a lock then, which a thread takes that would wait.
TEST_F(ExactThreads, TheEndOfAStreamOrAContextIsNotDelayed) {
    launch(10);
    destroy_stream(10);
    EXPECT_EQ(fetched(), (std::set<std::uint32_t>{}));
    synchronise_all();
    EXPECT_EQ(fetched(), (std::set<std::uint32_t>{1}));
    launch(20);
    const ContextData ended{context};
    played_.call(resources, context_ends, &ended);
    exact_->finish();
    EXPECT_EQ(fetched(), (std::set<std::uint32_t>{1}));
    EXPECT_EQ(played_.waits, 0);
}

// As where a function of the driver waits for a lock that is held by a thread within a callback.
TEST_F(ExactThreads, OtherThreadsLaunchWhileTheDriverIsAskedToCopy) {
    std::atomic<bool> has_launched{false};
    std::thread other;
    played_.in_copy_in = [&] {
        other = std::thread([&] {
            launch(20);
            has_launched = true;
        });
        for (int i = 0; i < 500 && !has_launched; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
        EXPECT_TRUE(has_launched);
    };
    launch(10);
    other.join();
}

TEST_F(ExactThreads, KernelsOfGraphsThatTwoThreadsLaunchAreToldApart) {
    begin_graph();
    launch_node(10, "first of two");
    std::thread([&] {
        begin_graph();
        launch_node(20, "only one");
    }).join();
    launch_node(10, "second of two");
    synchronise_all();
    EXPECT_EQ(fetched(), (std::set<std::uint32_t>{2}));
}

TEST_F(ExactThreads, NothingIsWaitedForThatTheProgramDoesNotWaitFor) {
    launch(10);
    free_memory();
    launch(20);
    synchronise(20);
    EXPECT_EQ(fetched(), (std::set<std::uint32_t>{2}));
    copy_to_host(10);
    EXPECT_EQ(fetched(), (std::set<std::uint32_t>{2}));  // it may not have ended yet
    launch(20);
    EXPECT_EQ(fetched(), (std::set<std::uint32_t>{1, 2}));
    EXPECT_EQ(played_.waits, 0);
}

TEST_F(ExactThreads, WhatAnotherThreadLaunchedMeanwhileHasNotEnded) {
    launch(10);
    std::thread([&] { launch(10); }).join();
    synchronise(10);
    EXPECT_EQ(fetched(), (std::set<std::uint32_t>{1}));
    synchronise(10);
    EXPECT_EQ(fetched(), (std::set<std::uint32_t>{1, 2}));
}

// The driver may wait for kernels where memory is allocated or freed.
TEST_F(ExactThreads, MemoryIsUsedAgain) {
    for (int i = 0; i < 10; ++i) {
        launch(10);
        synchronise(10);
    }
    EXPECT_EQ(fetched().size(), 10u);
    EXPECT_EQ(played_.allocated, 1);
}

TEST_F(ExactThreads, AProgramEndsWhileAKernelRunsForEver) {
    launch(10);
    exact_->finish();
    EXPECT_EQ(fetched(), (std::set<std::uint32_t>{}));
    EXPECT_EQ(played_.waits, 1);
    played_.end_kernels(handle<StreamHandle>(10));
    while (fetched().empty()) std::this_thread::yield();  // the thread that waited ends
}

}  // namespace
}  // namespace firsttouch::inject
