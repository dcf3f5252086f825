// The interface to vendors' libraries, on stand-ins (tests/standins): layouts, order of calls, memory, refusals.
// tests/core/test_math.py compares the results of the vendors' libraries with numpy.
#include "math/math.hpp"

#include <cmath>
#include <complex>
#include <vector>

#include "device/library.hpp"
#include "support.hpp"

namespace firsttouch {
namespace {

class Math : public testing::Test {
  protected:
    void SetUp() override {
        set_library_paths("hip", {HIP_ON_HOST});
        for (const char* name : {"hipblas", "hipsparse", "hipfft"}) set_library_paths(name, {MATH_ON_HOST});
        device = open_device("hip:0");
        stream = device->stream();
    }
    // Returns a buffer of pinned memory, which both the stand-in and the test can access.
    template <class T>
    std::unique_ptr<Buffer> buffer_of(const std::vector<T>& values) {
        auto buffer = device->allocate(Allocator::pinned, values.size() * sizeof(T));
        std::copy(values.begin(), values.end(), elements<T>(*buffer));
        return buffer;
    }
    template <class T>
    static T* elements(const Buffer& buffer) {
        return static_cast<T*>(buffer.block().host);
    }
    template <class T>
    std::vector<T> values_of(const Buffer& buffer, std::size_t count) {
        device->wait(*stream);
        return {elements<T>(buffer), elements<T>(buffer) + count};
    }
    std::size_t used() {
        const DeviceMemory now = device->memory();
        return now.total - now.free;
    }
    std::unique_ptr<Device> device;
    std::unique_ptr<Stream> stream;
};

TEST_F(Math, GemmIsRowMajor) {
    const std::size_t before = used();
    {
        const auto blas = open_blas(*device);
        EXPECT_GE(used() - before, std::size_t{32} << 20);  // its workspace, allocated from the device
        EXPECT_EQ(blas->title(), "hipBLAS");
        const auto a = buffer_of<float>({1, 2, 3, 4, 5, 6}), b = buffer_of<float>({1, 0, 2, 0, 1, 0, 3, 1, 1, 1, 0, 1});
        const auto c = buffer_of(std::vector<float>(8, -1));
        blas->gemm(*stream, *a, *b, *c, 2, 4, 3);
        EXPECT_EQ(values_of<float>(*c, 8), (std::vector<float>{6, 3, 8, 5, 15, 6, 23, 11}));
        EXPECT_EQ(message_of<std::invalid_argument>([&] { blas->gemm(*stream, *a, *b, *c, 3, 4, 3); }),
                  "a holds 6 elements, too few");
        EXPECT_EQ(message_of<std::invalid_argument>([&] { blas->gemm(*stream, *a, *b, *c, 0, 4, 3); }),
                  "m is 0, not between 1 and 2147483647");
    }
    EXPECT_EQ(used(), before);
}

TEST_F(Math, DotWritesOnlyTheGivenElement) {
    const auto blas = open_blas(*device);
    const auto x = buffer_of<float>({1, 2, 3}), y = buffer_of<float>({4, 5, 6}), result = buffer_of<float>({7, 8, 9});
    blas->dot(*stream, *x, *y, *result, 1, 3);
    blas->dot(*stream, *x, *x, *result, 2, 2);
    EXPECT_EQ(values_of<float>(*result, 3), (std::vector<float>{7, 32, 5}));
    for (const std::int64_t index : {-1, 3})
        EXPECT_TRUE(contains(message_of<std::invalid_argument>([&] { blas->dot(*stream, *x, *y, *result, index, 3); }),
                             "result holds 3"));
}

TEST_F(Math, SparseProductsShareOneAnalysis) {
    const std::size_t before = used();
    {
        const auto sparse = open_sparse(*device);
        EXPECT_EQ(sparse->title(), "hipSPARSE 4.1.2");
        const auto pointers = buffer_of<std::int32_t>({0, 0, 0, 0}), indices = buffer_of<std::int32_t>({0, 3, 1, 0});
        const auto values = buffer_of<float>({1, 2, 3, 4});
        const auto plan = sparse->plan(*pointers, *indices, *values, 3, 4, 4);
        EXPECT_GT(used(), before);
        // Row pointers may be filled in after the plan is made and before the first product.
        const std::vector<std::int32_t> filled = {0, 2, 3, 4};
        std::copy(filled.begin(), filled.end(), elements<std::int32_t>(*pointers));
        const auto x = buffer_of<float>({1, 2, 3, 4}), y = buffer_of<float>({9, 9, 9});
        plan->multiply(*stream, *x, *y);
        EXPECT_EQ(values_of<float>(*y, 3), (std::vector<float>{9, 6, 4}));
        elements<float>(*values)[2] = 5;
        plan->multiply(*stream, *x, *y);
        EXPECT_EQ(values_of<float>(*y, 3), (std::vector<float>{9, 10, 4}));
        EXPECT_EQ(message_of<std::invalid_argument>([&] { plan->multiply(*stream, *y, *y); }),
                  "x holds 3 elements, too few");
    }
    EXPECT_EQ(used(), before);
}

TEST_F(Math, TransformsForwardAndBackward) {
    using Complex = std::complex<float>;
    const std::size_t before = used();
    {
        constexpr int height = 3, width = 5, half = width / 2 + 1;
        const auto fft = open_fft(*device);
        EXPECT_EQ(fft->title(), "hipFFT 1.0.36");
        const auto r2c = fft->plan(FftKind::r2c, height, width), c2r = fft->plan(FftKind::c2r, height, width);
        const auto c2c = fft->plan(FftKind::c2c, height, width);
        EXPECT_GT(used(), before);
        std::vector<float> wave(height * width);
        for (int y = 0; y < height; ++y)
            for (int x = 0; x < width; ++x)
                wave[y * width + x] = std::cos(2 * float(M_PI) * (x * 2.0f / width + y * 1.0f / height));
        const auto real = buffer_of(wave), back = buffer_of(std::vector<float>(wave.size()));
        const auto spectrum = buffer_of(std::vector<Complex>(height * half));
        r2c->execute(*stream, *real, *spectrum, FftDirection::forward);
        const auto found = values_of<Complex>(*spectrum, height * half);
        for (int i = 0; i < height * half; ++i)
            EXPECT_NEAR(std::abs(found[i]), i == 1 * half + 2 ? height * width / 2.0 : 0, 1e-4) << i;
        c2r->execute(*stream, *spectrum, *back, FftDirection::backward);
        const auto restored = values_of<float>(*back, wave.size());
        for (std::size_t i = 0; i < wave.size(); ++i) EXPECT_NEAR(restored[i], height * width * wave[i], 1e-4);

        const auto complex = buffer_of(std::vector<Complex>(wave.begin(), wave.end()));
        c2c->execute(*stream, *complex, *complex, FftDirection::forward);
        EXPECT_NEAR(std::abs(values_of<Complex>(*complex, 15)[1 * width + 2]), height * width / 2.0, 1e-4);
        c2c->execute(*stream, *complex, *complex, FftDirection::backward);
        EXPECT_NEAR(std::abs(values_of<Complex>(*complex, 15)[7] - 15.0f * wave[7]), 0, 1e-4);

        EXPECT_EQ(
            message_of<std::invalid_argument>([&] { r2c->execute(*stream, *real, *spectrum, FftDirection::backward); }),
            "r2c supports the direction forward only");
        EXPECT_EQ(
            message_of<std::invalid_argument>([&] { r2c->execute(*stream, *real, *real, FftDirection::forward); }),
            "r2c and c2r cannot work in place: the output must be another buffer");
        EXPECT_EQ(
            message_of<std::invalid_argument>([&] { c2c->execute(*stream, *complex, *real, FftDirection::forward); }),
            "output holds 7 elements, too few");
        EXPECT_EQ(message_of<std::invalid_argument>([&] { fft->plan(FftKind::c2c, 4, -4); }),
                  "width is -4, not between 1 and 2147483647");
    }
    EXPECT_EQ(used(), before);
}

TEST_F(Math, MemoryThatTheDeviceCannotAccessIsRefused) {
    const auto blas = open_blas(*device);
    const auto plain = device->allocate(Allocator::malloc, 64);
    if (plain->block().address != 0) GTEST_SKIP() << "this device can access plain memory";
    EXPECT_EQ(message_of<Unavailable>([&] { blas->dot(*stream, *plain, *plain, *plain, 0, 4); }),
              "a library on hip:0 cannot reach malloc memory");
}

TEST(MathOnOtherDevices, IsUnavailable) {
    const auto cpu = open_device("cpu");
    EXPECT_EQ(message_of<Unavailable>([&] { open_blas(*cpu); }),
              "there is no linear algebra library for devices of kind cpu");
    EXPECT_EQ(message_of<Unavailable>([&] { open_sparse(*cpu); }),
              "there is no sparse linear algebra library for devices of kind cpu");
    EXPECT_EQ(message_of<Unavailable>([&] { open_fft(*cpu); }),
              "there is no Fourier transform library for devices of kind cpu");
}

}  // namespace
}  // namespace firsttouch
