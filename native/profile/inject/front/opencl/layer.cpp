// A layer of OpenCL's loader (OPENCL_LAYERS): tells the recorder of a program's buffers, copies, kernels and waits.
//
// A buffer of the device's own memory is a block of the device, and a mapping of it a copy. One that shares memory with
// the host (USE_HOST_PTR, ALLOC_HOST_PTR, SVM) is memory of both, and a mapping of it is a wait if it blocks.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <type_traits>

#include "profile/inject/core/front.hpp"
#include "profile/inject/front/opencl/objects.hpp"

namespace firsttouch::opencl_layer {
namespace {

using inject::Asked;
using inject::Cause;
using inject::Direction;
using inject::FrontCall;
using inject::RecordedCall;
using inject::Recorder;
using inject::Transfer;
using inject::WaitFor;

constexpr std::size_t most_slots = 512, most_slices = 1 << 16, most_name = 1024;

using Table = std::array<void*, most_slots>;
Table mine{};  // what the program calls
Table next{};  // what it called without the layer

// Never freed: programs may call while they end.
Objects& objects() {
    static Objects& made = *new Objects;
    return made;
}

template <Slot slot, class Result = Int, class... Arguments>
Result call(Arguments... arguments) {
    return reinterpret_cast<Result (*)(Arguments...)>(next[slot])(arguments...);
}

std::uint64_t address_of(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

constexpr auto nothing = [](Recorder&, const RecordedCall&) {};
template <class Step>
constexpr bool is_nothing = std::is_same_v<std::remove_cvref_t<Step>, std::remove_cvref_t<decltype(nothing)>>;

// Makes a call that returns a status, and tells of it if it succeeded. before, after: steps with the recorder and the
// call.
template <class Before, class Real, class After>
Int recorded(Before&& before, Real&& real, After&& after) {
    const FrontCall front;
    if constexpr (!is_nothing<Before>) front.tell(before);
    const Int status = real();
    if constexpr (!is_nothing<After>)
        if (status == 0) front.tell(after);
    return status;
}

// Makes a call that returns an object and writes a status.
template <class Real, class After>
Object made(Int* error, Real&& real, After&& after) {
    const FrontCall front;
    Int status = 0;
    const Object object = real(&status);
    if (error != nullptr) *error = status;
    if (status == 0 && object != nullptr)
        front.tell([&](Recorder& recorder, const RecordedCall& of) { after(recorder, of, object); });
    return object;
}

template <class Real>
Int copied(const Asked& asked, Real&& real) {
    return recorded([&](Recorder& recorder, const RecordedCall& of) { recorder.before_copies(asked, of); }, real,
                    [&](Recorder& recorder, const RecordedCall& of) { recorder.after_copies(asked, of); });
}

// ----------------------------------------------------------------------------------------------------------- devices

void tell_device(Recorder& recorder, Object device) {
    static std::mutex mutex;
    static std::vector<Object> told;
    {
        const std::scoped_lock lock(mutex);
        if (std::ranges::find(told, device) != told.end()) return;
        told.push_back(device);
    }
    const auto text = [&](UInt what) {
        std::array<char, most_name> value{};
        if (call<clGetDeviceInfo>(device, what, Size(value.size() - 1), static_cast<void*>(value.data()),
                                  static_cast<Size*>(nullptr)) != 0)
            value[0] = '\0';
        return std::string(value.data());
    };
    recorder.runs_on("OpenCL", text(device_version), text(device_name), "");
}

Object create_queue(Object context, Object device, Flags properties, Int* error) {
    return made(
        error, [&](Int* status) { return call<clCreateCommandQueue, Object>(context, device, properties, status); },
        [&](Recorder& recorder, const RecordedCall&, Object) { tell_device(recorder, device); });
}
Object create_queue_with(Object context, Object device, const Flags* properties, Int* error) {
    return made(
        error,
        [&](Int* status) {
            return call<clCreateCommandQueueWithProperties, Object>(context, device, properties, status);
        },
        [&](Recorder& recorder, const RecordedCall&, Object) { tell_device(recorder, device); });
}

Int device_info(Object device, UInt what, Size bytes, void* value, Size* needed) {
    const auto real = [&] { return call<clGetDeviceInfo>(device, what, bytes, value, needed); };
    return recorded(nothing, real, [&](Recorder& recorder, const RecordedCall&) {
        Size kib = 0;
        if (what != device_free_amd || value == nullptr || bytes < sizeof kib) return;
        std::memcpy(&kib, value, sizeof kib);
        recorder.asked_for_free_memory(std::uint64_t(kib) << 10, 0);
    });
}

// ------------------------------------------------------------------------------------------------------------ memory

std::uint8_t access_of(Flags flags) {
    return (flags & memory_read_only) != 0 ? 1 : (flags & memory_write_only) != 0 ? 2 : 0;
}

// A block, and what its creation copies.
void begin(Recorder& recorder, const RecordedCall& of, Object memory, const Memory& as_made, const void* host) {
    const Memory known = objects().add_memory(memory, as_made);
    const auto sharing = static_cast<std::uint8_t>(((known.flags & memory_use_host) != 0 ? 1 : 0) |
                                                   ((known.flags & memory_alloc_host) != 0 ? 2 : 0));
    recorder.begin_block(known.address,
                         {.bytes = known.bytes,
                          .memory = known.is_shared() ? inject::Memory::managed : inject::Memory::device,
                          .sharing = sharing,
                          .access = access_of(known.flags),
                          .host = (known.flags & memory_use_host) != 0 ? address_of(host) : 0},
                         of);
    if ((known.flags & memory_copy_host) == 0 || host == nullptr) return;
    recorder.after_copies({.transfer = {.target = known.address,
                                        .source = address_of(host),
                                        .bytes = known.bytes,
                                        .direction = Direction::to_device,
                                        .cause = Cause::creation}},
                          {of.correlation, of.began, true});
}

Object create_buffer(Object context, Flags flags, Size bytes, void* host, Int* error) {
    return made(
        error, [&](Int* status) { return call<clCreateBuffer, Object>(context, flags, bytes, host, status); },
        [&](Recorder& recorder, const RecordedCall& of, Object memory) {
            begin(recorder, of, memory, {.bytes = bytes, .flags = flags, .host = host}, host);
        });
}
Object create_buffer_with(Object context, const Flags* properties, Flags flags, Size bytes, void* host, Int* error) {
    return made(
        error,
        [&](Int* status) {
            return call<clCreateBufferWithProperties, Object>(context, properties, flags, bytes, host, status);
        },
        [&](Recorder& recorder, const RecordedCall& of, Object memory) {
            begin(recorder, of, memory, {.bytes = bytes, .flags = flags, .host = host}, host);
        });
}
Object create_part(Object whole, Flags flags, UInt type, const void* info, Int* error) {
    return made(
        error, [&](Int* status) { return call<clCreateSubBuffer, Object>(whole, flags, type, info, status); },
        [&](Recorder&, const RecordedCall&, Object part) {
            const auto& region = *static_cast<const BufferRegion*>(info);
            objects().add_part(part, whole, region.origin, region.bytes);
        });
}

// Of an image, rows without what a pitch adds.
void begin_image(Recorder& recorder, const RecordedCall& of, Object image, Flags flags, const ImageDescription& shape,
                 const void* host) {
    Size element = 0;
    call<clGetImageInfo>(image, UInt(image_element_bytes), Size(sizeof element), static_cast<void*>(&element),
                         static_cast<Size*>(nullptr));
    const Size height = std::max<Size>(shape.height, 1);
    const Size layers = std::max<Size>({shape.depth, shape.array_size, 1});
    begin(recorder, of, image,
          {.bytes = shape.width * height * layers * element,
           .flags = flags,
           .host = host,
           .element_bytes = element,
           .width = shape.width,
           .height = height},
          host);
}
Object create_image(Object context, Flags flags, const ImageFormat* format, const ImageDescription* shape, void* host,
                    Int* error) {
    return made(
        error, [&](Int* status) { return call<clCreateImage, Object>(context, flags, format, shape, host, status); },
        [&](Recorder& recorder, const RecordedCall& of, Object image) {
            begin_image(recorder, of, image, flags, *shape, host);
        });
}
Object create_image_with(Object context, const Flags* properties, Flags flags, const ImageFormat* format,
                         const ImageDescription* shape, void* host, Int* error) {
    return made(
        error,
        [&](Int* status) {
            return call<clCreateImageWithProperties, Object>(context, properties, flags, format, shape, host, status);
        },
        [&](Recorder& recorder, const RecordedCall& of, Object image) {
            begin_image(recorder, of, image, flags, *shape, host);
        });
}
Object create_image_2d(Object context, Flags flags, const ImageFormat* format, Size width, Size height, Size pitch,
                       void* host, Int* error) {
    return made(
        error,
        [&](Int* status) {
            return call<clCreateImage2D, Object>(context, flags, format, width, height, pitch, host, status);
        },
        [&](Recorder& recorder, const RecordedCall& of, Object image) {
            begin_image(recorder, of, image, flags, {.width = width, .height = height}, host);
        });
}
Object create_image_3d(Object context, Flags flags, const ImageFormat* format, Size width, Size height, Size depth,
                       Size row_pitch, Size slice_pitch, void* host, Int* error) {
    return made(
        error,
        [&](Int* status) {
            return call<clCreateImage3D, Object>(context, flags, format, width, height, depth, row_pitch, slice_pitch,
                                                 host, status);
        },
        [&](Recorder& recorder, const RecordedCall& of, Object image) {
            begin_image(recorder, of, image, flags, {.width = width, .height = height, .depth = depth}, host);
        });
}

Int retain_memory(Object memory) {
    return recorded(
        nothing, [&] { return call<clRetainMemObject>(memory); },
        [&](Recorder&, const RecordedCall&) { objects().retain_memory(memory); });
}
Int release_memory(Object memory) {
    const auto end = [&](Recorder& recorder, const RecordedCall& of) {
        if (const Memory gone = objects().release_memory(memory); gone.bytes > 0 && !gone.is_part)
            recorder.end_block(gone.address, of);
    };
    return recorded(
        end, [&] { return call<clReleaseMemObject>(memory); }, nothing);
}

// ------------------------------------------------------------------------------------------------------------ copies

Transfer transfer_of(const Memory& memory, Size offset, const void* host, Size bytes, bool to_host, bool blocking) {
    const std::uint64_t device = memory.address + offset, at = address_of(host);
    return {.target = to_host ? at : device,
            .source = to_host ? device : at,
            .bytes = bytes,
            .direction = to_host ? Direction::to_host : Direction::to_device,
            .is_async = !blocking,
            .waits_if_pageable = false};
}

Int write_buffer(Object queue, Object memory, UInt blocking, Size offset, Size bytes, const void* from, UInt waits,
                 const Object* list, Object* event) {
    return copied(
        {.transfer = transfer_of(objects().find(memory), offset, from, bytes, false, blocking != 0),
         .stream = address_of(queue)},
        [&] { return call<clEnqueueWriteBuffer>(queue, memory, blocking, offset, bytes, from, waits, list, event); });
}
Int read_buffer(Object queue, Object memory, UInt blocking, Size offset, Size bytes, void* to, UInt waits,
                const Object* list, Object* event) {
    return copied(
        {.transfer = transfer_of(objects().find(memory), offset, to, bytes, true, blocking != 0),
         .stream = address_of(queue)},
        [&] { return call<clEnqueueReadBuffer>(queue, memory, blocking, offset, bytes, to, waits, list, event); });
}

// One side of a copy of boxes: the address of the first byte, and how far rows and slices are apart.
struct Side {
    std::uint64_t address, row, slice;
};
Side side_of(std::uint64_t base, const Size* origin, const Size* region, Size row, Size slice) {
    if (row == 0) row = region[0];
    if (slice == 0) slice = row * region[1];
    return {base + origin[0] + origin[1] * row + origin[2] * slice, row, slice};
}
// One copy of rows where slices follow each other, else one a slice. region: bytes, rows, slices.
Asked boxes(const Side& source, const Side& target, const Size* region, Direction direction, bool blocking,
            Object queue) {
    const Size slices = std::clamp<Size>(region[2], 1, most_slices);
    const auto rows = [&](Size slice, Size count) {
        Transfer made{.target = target.address + slice * target.slice,
                      .source = source.address + slice * source.slice,
                      .bytes = region[0],
                      .rows = count,
                      .target_pitch = target.row,
                      .source_pitch = source.row,
                      .direction = direction,
                      .is_async = !blocking,
                      .waits_if_pageable = false};
        if (count <= 1 || (target.row == region[0] && source.row == region[0])) {
            made.bytes *= count;
            made.rows = 1;
            made.target_pitch = made.source_pitch = 0;
        }
        return made;
    };
    Asked asked{.stream = address_of(queue)};
    if (source.slice == source.row * region[1] && target.slice == target.row * region[1]) {
        asked.transfer = rows(0, region[1] * slices);
        return asked;
    }
    asked.transfer = rows(0, region[1]);
    for (Size slice = 1; slice < slices; ++slice) asked.more.push_back(rows(slice, region[1]));
    return asked;
}

Int write_box(Object queue, Object memory, UInt blocking, const Size* at, const Size* host_at, const Size* region,
              Size row, Size slice, Size host_row, Size host_slice, const void* from, UInt waits, const Object* list,
              Object* event) {
    const Side device = side_of(objects().find(memory).address, at, region, row, slice);
    const Side host = side_of(address_of(from), host_at, region, host_row, host_slice);
    return copied(boxes(host, device, region, Direction::to_device, blocking != 0, queue), [&] {
        return call<clEnqueueWriteBufferRect>(queue, memory, blocking, at, host_at, region, row, slice, host_row,
                                              host_slice, from, waits, list, event);
    });
}
Int read_box(Object queue, Object memory, UInt blocking, const Size* at, const Size* host_at, const Size* region,
             Size row, Size slice, Size host_row, Size host_slice, void* to, UInt waits, const Object* list,
             Object* event) {
    const Side device = side_of(objects().find(memory).address, at, region, row, slice);
    const Side host = side_of(address_of(to), host_at, region, host_row, host_slice);
    return copied(boxes(device, host, region, Direction::to_host, blocking != 0, queue), [&] {
        return call<clEnqueueReadBufferRect>(queue, memory, blocking, at, host_at, region, row, slice, host_row,
                                             host_slice, to, waits, list, event);
    });
}
Int copy_box(Object queue, Object source, Object target, const Size* from, const Size* to, const Size* region,
             Size source_row, Size source_slice, Size target_row, Size target_slice, UInt waits, const Object* list,
             Object* event) {
    const Side a = side_of(objects().find(source).address, from, region, source_row, source_slice);
    const Side b = side_of(objects().find(target).address, to, region, target_row, target_slice);
    return copied(boxes(a, b, region, Direction::within_devices, false, queue), [&] {
        return call<clEnqueueCopyBufferRect>(queue, source, target, from, to, region, source_row, source_slice,
                                             target_row, target_slice, waits, list, event);
    });
}

Asked within(std::uint64_t source, std::uint64_t target, Size bytes, Object queue) {
    return {.transfer = {.target = target,
                         .source = source,
                         .bytes = bytes,
                         .direction = Direction::within_devices,
                         .is_async = true},
            .stream = address_of(queue)};
}
Int copy_buffer(Object queue, Object source, Object target, Size from, Size to, Size bytes, UInt waits,
                const Object* list, Object* event) {
    return copied(
        within(objects().find(source).address + from, objects().find(target).address + to, bytes, queue),
        [&] { return call<clEnqueueCopyBuffer>(queue, source, target, from, to, bytes, waits, list, event); });
}

Int fill_buffer(Object queue, Object memory, const void* pattern, Size pattern_bytes, Size offset, Size bytes,
                UInt waits, const Object* list, Object* event) {
    const auto real = [&] {
        return call<clEnqueueFillBuffer>(queue, memory, pattern, pattern_bytes, offset, bytes, waits, list, event);
    };
    return recorded(nothing, real, [&](Recorder& recorder, const RecordedCall& of) {
        recorder.filled(objects().find(memory).address + offset, bytes, 1, 0, address_of(queue), of);
    });
}

// ------------------------------------------------------------------------------------------------------------ images

// A box of an image: where it begins, if rows of the image follow each other.
Side box_of(const Memory& image, const Size* origin) {
    const Size row = image.width * image.element_bytes, slice = row * image.height;
    return {image.address + origin[0] * image.element_bytes + origin[1] * row + origin[2] * slice, row, slice};
}
std::array<Size, 3> bytes_of(const Memory& image, const Size* region) {
    return {region[0] * image.element_bytes, std::max<Size>(region[1], 1), std::max<Size>(region[2], 1)};
}
constexpr Size zero[3] = {0, 0, 0};

Int write_image(Object queue, Object image, UInt blocking, const Size* origin, const Size* region, Size row, Size slice,
                const void* from, UInt waits, const Object* list, Object* event) {
    const Memory of = objects().find(image);
    const auto bytes = bytes_of(of, region);
    return copied(boxes(side_of(address_of(from), zero, bytes.data(), row, slice), box_of(of, origin), bytes.data(),
                        Direction::to_device, blocking != 0, queue),
                  [&] {
                      return call<clEnqueueWriteImage>(queue, image, blocking, origin, region, row, slice, from, waits,
                                                       list, event);
                  });
}
Int read_image(Object queue, Object image, UInt blocking, const Size* origin, const Size* region, Size row, Size slice,
               void* to, UInt waits, const Object* list, Object* event) {
    const Memory of = objects().find(image);
    const auto bytes = bytes_of(of, region);
    return copied(boxes(box_of(of, origin), side_of(address_of(to), zero, bytes.data(), row, slice), bytes.data(),
                        Direction::to_host, blocking != 0, queue),
                  [&] {
                      return call<clEnqueueReadImage>(queue, image, blocking, origin, region, row, slice, to, waits,
                                                      list, event);
                  });
}
Int copy_image(Object queue, Object source, Object target, const Size* from, const Size* to, const Size* region,
               UInt waits, const Object* list, Object* event) {
    const Memory a = objects().find(source), b = objects().find(target);
    const auto bytes = bytes_of(a, region);
    return copied(boxes(box_of(a, from), box_of(b, to), bytes.data(), Direction::within_devices, false, queue), [&] {
        return call<clEnqueueCopyImage>(queue, source, target, from, to, region, waits, list, event);
    });
}
Int copy_image_to_buffer(Object queue, Object image, Object buffer, const Size* from, const Size* region, Size to,
                         UInt waits, const Object* list, Object* event) {
    const Memory of = objects().find(image);
    const auto bytes = bytes_of(of, region);
    const Side target = side_of(objects().find(buffer).address + to, zero, bytes.data(), 0, 0);
    return copied(boxes(box_of(of, from), target, bytes.data(), Direction::within_devices, false, queue), [&] {
        return call<clEnqueueCopyImageToBuffer>(queue, image, buffer, from, region, to, waits, list, event);
    });
}
Int copy_buffer_to_image(Object queue, Object buffer, Object image, Size from, const Size* to, const Size* region,
                         UInt waits, const Object* list, Object* event) {
    const Memory of = objects().find(image);
    const auto bytes = bytes_of(of, region);
    const Side source = side_of(objects().find(buffer).address + from, zero, bytes.data(), 0, 0);
    return copied(boxes(source, box_of(of, to), bytes.data(), Direction::within_devices, false, queue), [&] {
        return call<clEnqueueCopyBufferToImage>(queue, buffer, image, from, to, region, waits, list, event);
    });
}
Int fill_image(Object queue, Object image, const void* colour, const Size* origin, const Size* region, UInt waits,
               const Object* list, Object* event) {
    const auto real = [&] {
        return call<clEnqueueFillImage>(queue, image, colour, origin, region, waits, list, event);
    };
    return recorded(nothing, real, [&](Recorder& recorder, const RecordedCall& of) {
        const Memory memory = objects().find(image);
        const auto bytes = bytes_of(memory, region);
        const Side at = box_of(memory, origin);
        for (Size slice = 0; slice < std::min(bytes[2], most_slices); ++slice)
            recorder.filled(at.address + slice * at.slice, bytes[0], bytes[1], at.row, address_of(queue), of);
    });
}

// ---------------------------------------------------------------------------------------------------------- mappings

Transfer transfer_of(const Mapping& mapping, const void* at, bool to_host, bool blocking) {
    Transfer made = transfer_of({.address = mapping.device}, 0, at, mapping.bytes, to_host, blocking);
    made.cause = Cause::mapping;
    return made;
}

std::uint8_t use_of(Flags mapping) {
    return static_cast<std::uint8_t>(((mapping & map_read) != 0 ? 1 : 0) |
                                     ((mapping & (map_write | map_write_invalidate)) != 0 ? 2 : 0));
}

void mapped(Recorder& recorder, const RecordedCall& of, Object queue, const void* at, const Mapping& mapping,
            bool blocking) {
    objects().add_mapping(at, mapping);
    if (!mapping.is_shared && (mapping.flags & map_read) != 0)
        recorder.after_copies({.transfer = transfer_of(mapping, at, true, blocking), .stream = address_of(queue)}, of);
    else if (blocking)
        recorder.waited(WaitFor::stream, of);
    recorder.viewed(mapping.device, address_of(at), mapping.bytes, use_of(mapping.flags), true, blocking);
}

Object map_buffer(Object queue, Object memory, UInt blocking, Flags flags, Size offset, Size bytes, UInt waits,
                  const Object* list, Object* event, Int* error) {
    return made(
        error,
        [&](Int* status) {
            return call<clEnqueueMapBuffer, Object>(queue, memory, blocking, flags, offset, bytes, waits, list, event,
                                                    status);
        },
        [&](Recorder& recorder, const RecordedCall& of, Object at) {
            const Memory known = objects().find(memory);
            mapped(recorder, of, queue, at, {known.address + offset, bytes, flags, known.is_shared()}, blocking != 0);
        });
}
Object map_image(Object queue, Object image, UInt blocking, Flags flags, const Size* origin, const Size* region,
                 Size* row, Size* slice, UInt waits, const Object* list, Object* event, Int* error) {
    return made(
        error,
        [&](Int* status) {
            return call<clEnqueueMapImage, Object>(queue, image, blocking, flags, origin, region, row, slice, waits,
                                                   list, event, status);
        },
        [&](Recorder& recorder, const RecordedCall& of, Object at) {
            const Memory known = objects().find(image);
            const auto bytes = bytes_of(known, region);
            mapped(recorder, of, queue, at,
                   {box_of(known, origin).address, bytes[0] * bytes[1] * bytes[2], flags, known.is_shared()},
                   blocking != 0);
        });
}
// Told before the driver takes the memory back.
Int unmap(Object queue, Object memory, void* at, UInt waits, const Object* list, Object* event) {
    const auto end = [&](Recorder& recorder, const RecordedCall& of) {
        const Mapping ended = objects().end_mapping(at);
        if (ended.bytes == 0) return;
        if (!ended.is_shared && (use_of(ended.flags) & 2) != 0) {
            const Asked copy{.transfer = transfer_of(ended, at, false, false), .stream = address_of(queue)};
            recorder.before_copies(copy, of);
            recorder.after_copies(copy, of);
        }
        recorder.viewed(ended.device, address_of(at), ended.bytes, use_of(ended.flags), false, false);
    };
    return recorded(
        end, [&] { return call<clEnqueueUnmapMemObject>(queue, memory, at, waits, list, event); }, nothing);
}

// --------------------------------------------------------------------------------------------------------------- SVM

void* svm_alloc(Object context, Flags flags, Size bytes, UInt alignment) {
    const FrontCall front;
    void* const at = call<clSVMAlloc, void*>(context, flags, bytes, alignment);
    if (at != nullptr)
        front.tell([&](Recorder& recorder, const RecordedCall& of) {
            objects().add_svm(at, bytes);
            const auto sharing = static_cast<std::uint8_t>((flags & svm_fine) == 0      ? 4
                                                           : (flags & svm_atomics) == 0 ? 8
                                                                                        : 8 | 16);
            recorder.begin_block(
                address_of(at),
                {.bytes = bytes, .memory = inject::Memory::managed, .sharing = sharing, .access = access_of(flags)},
                of);
        });
    return at;
}
void svm_free(Object context, void* at) {
    const FrontCall front;
    front.tell([&](Recorder& recorder, const RecordedCall& of) {
        if (objects().end_svm(at)) recorder.end_block(address_of(at), of);
    });
    call<clSVMFree, void>(context, at);
}
Int svm_copy(Object queue, UInt blocking, void* to, const void* from, Size bytes, UInt waits, const Object* list,
             Object* event) {
    return copied({.transfer = {.target = address_of(to),
                                .source = address_of(from),
                                .bytes = bytes,
                                .is_certain = false,
                                .is_async = blocking == 0,
                                .waits_if_pageable = false},
                   .stream = address_of(queue)},
                  [&] { return call<clEnqueueSVMMemcpy>(queue, blocking, to, from, bytes, waits, list, event); });
}
Int svm_fill(Object queue, void* at, const void* pattern, Size pattern_bytes, Size bytes, UInt waits,
             const Object* list, Object* event) {
    const auto real = [&] {
        return call<clEnqueueSVMMemFill>(queue, at, pattern, pattern_bytes, bytes, waits, list, event);
    };
    return recorded(nothing, real, [&](Recorder& recorder, const RecordedCall& of) {
        recorder.filled(address_of(at), bytes, 1, 0, address_of(queue), of);
    });
}
Int svm_map(Object queue, UInt blocking, Flags flags, void* at, Size bytes, UInt waits, const Object* list,
            Object* event) {
    const auto real = [&] { return call<clEnqueueSVMMap>(queue, blocking, flags, at, bytes, waits, list, event); };
    return recorded(nothing, real, [&](Recorder& recorder, const RecordedCall& of) {
        if (blocking != 0) recorder.waited(WaitFor::stream, of);
        objects().add_mapping(at, {address_of(at), bytes, flags, true});
        recorder.viewed(address_of(at), address_of(at), bytes, use_of(flags), true, blocking != 0);
    });
}
Int svm_unmap(Object queue, void* at, UInt waits, const Object* list, Object* event) {
    return recorded(
        [&](Recorder& recorder, const RecordedCall&) {
            const Mapping ended = objects().end_mapping(at);
            if (ended.bytes > 0)
                recorder.viewed(ended.device, address_of(at), ended.bytes, use_of(ended.flags), false, false);
        },
        [&] { return call<clEnqueueSVMUnmap>(queue, at, waits, list, event); }, nothing);
}

// ----------------------------------------------------------------------------------------------------------- kernels

// What the kernel does with what an argument points to, where the program was compiled with that information.
std::uint8_t access_of(Object kernel, UInt argument) {
    UInt access = 0;
    Flags qualifier = 0;
    const auto ask = [&](UInt what, auto& value) {
        return call<clGetKernelArgInfo>(kernel, argument, what, Size(sizeof value), static_cast<void*>(&value),
                                        static_cast<Size*>(nullptr)) == 0;
    };
    if (ask(argument_access, access) && access == access_read_only) return 1;
    if (access == access_write_only) return 2;
    return ask(argument_type_qualifier, qualifier) && (qualifier & qualifier_const) != 0 ? 1 : 0;
}

void add_kernel(Object kernel) {
    std::array<char, most_name> name{};
    UInt count = 0;
    const auto ask = [&](UInt what, Size bytes, void* value) {
        return call<clGetKernelInfo>(kernel, what, bytes, value, static_cast<Size*>(nullptr)) == 0;
    };
    if (!ask(kernel_name, name.size() - 1, name.data())) name[0] = '?';
    if (!ask(kernel_arguments, sizeof count, &count)) count = 0;
    KernelInfo info{.name = name.data(), .parameters = {}};
    for (UInt i = 0; i < count; ++i)
        info.parameters.push_back({.offset = i * 8, .bytes = 8, .access = access_of(kernel, i)});
    objects().add_kernel(kernel, info);
}
Object create_kernel(Object program, const char* name, Int* error) {
    return made(
        error, [&](Int* status) { return call<clCreateKernel, Object>(program, name, status); },
        [&](Recorder&, const RecordedCall&, Object kernel) { add_kernel(kernel); });
}
Int create_kernels(Object program, UInt most, Object* kernels, UInt* count) {
    UInt number = 0;
    const auto real = [&] { return call<clCreateKernelsInProgram>(program, most, kernels, &number); };
    const Int status = recorded(nothing, real, [&](Recorder&, const RecordedCall&) {
        for (UInt i = 0; kernels != nullptr && i < number; ++i) add_kernel(kernels[i]);
    });
    if (count != nullptr) *count = number;
    return status;
}
Object clone_kernel(Object kernel, Int* error) {
    return made(
        error, [&](Int* status) { return call<clCloneKernel, Object>(kernel, status); },
        [&](Recorder&, const RecordedCall&, Object clone) { objects().clone_kernel(kernel, clone); });
}
Int retain_kernel(Object kernel) {
    return recorded(
        nothing, [&] { return call<clRetainKernel>(kernel); },
        [&](Recorder&, const RecordedCall&) { objects().retain_kernel(kernel); });
}
Int release_kernel(Object kernel) {
    return recorded([&](Recorder&, const RecordedCall&) { objects().release_kernel(kernel); },
                    [&] { return call<clReleaseKernel>(kernel); }, nothing);
}
Int set_argument(Object kernel, UInt index, Size bytes, const void* value) {
    return recorded(
        nothing, [&] { return call<clSetKernelArg>(kernel, index, bytes, value); },
        [&](Recorder&, const RecordedCall&) { objects().set_argument(kernel, index, bytes, value); });
}
Int set_pointer(Object kernel, UInt index, const void* at) {
    return recorded(
        nothing, [&] { return call<clSetKernelArgSVMPointer>(kernel, index, at); },
        [&](Recorder&, const RecordedCall&) { objects().set_pointer(kernel, index, at); });
}
Int set_exec_info(Object kernel, UInt what, Size bytes, const void* value) {
    return recorded(
        nothing, [&] { return call<clSetKernelExecInfo>(kernel, what, bytes, value); },
        [&](Recorder&, const RecordedCall&) {
            if (what == exec_svm_pointers)
                objects().set_pointers(kernel, static_cast<const void* const*>(value), bytes / sizeof(void*));
        });
}

void launched(Recorder& recorder, const RecordedCall& of, Object queue, Object kernel) {
    const Kernel known = objects().kernel(kernel);
    if (known.info == nullptr) return;
    std::vector<void*> parameters(known.values.size());
    for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i] = const_cast<std::uint64_t*>(&known.values[i]);
    recorder.launched(objects(), const_cast<KernelInfo*>(known.info), known.info->name.c_str(), parameters.data(),
                      nullptr, address_of(queue), 0, of);
}
Int launch(Object queue, Object kernel, UInt dimensions, const Size* offset, const Size* global, const Size* local,
           UInt waits, const Object* list, Object* event) {
    const auto real = [&] {
        return call<clEnqueueNDRangeKernel>(queue, kernel, dimensions, offset, global, local, waits, list, event);
    };
    return recorded(nothing, real,
                    [&](Recorder& recorder, const RecordedCall& of) { launched(recorder, of, queue, kernel); });
}
Int task(Object queue, Object kernel, UInt waits, const Object* list, Object* event) {
    const auto real = [&] { return call<clEnqueueTask>(queue, kernel, waits, list, event); };
    return recorded(nothing, real,
                    [&](Recorder& recorder, const RecordedCall& of) { launched(recorder, of, queue, kernel); });
}

// ------------------------------------------------------------------------------------------------------------- waits

Int finish(Object queue) {
    return recorded(
        nothing, [&] { return call<clFinish>(queue); },
        [](Recorder& recorder, const RecordedCall& of) { recorder.waited(WaitFor::stream, of); });
}
Int wait_events(UInt count, const Object* events) {
    return recorded(
        nothing, [&] { return call<clWaitForEvents>(count, events); },
        [](Recorder& recorder, const RecordedCall& of) { recorder.waited(WaitFor::event, of); });
}
// Programs ask again and again: the answer counts once.
Int event_info(Object event, UInt what, Size bytes, void* value, Size* needed) {
    const auto real = [&] { return call<clGetEventInfo>(event, what, bytes, value, needed); };
    return recorded(nothing, real, [&](Recorder& recorder, const RecordedCall& of) {
        Int status = 1;
        if (what != event_status || value == nullptr || bytes < sizeof status) return;
        std::memcpy(&status, value, sizeof status);
        if (status == complete && recorder.has_work()) recorder.waited(WaitFor::event, of);
    });
}

struct Replacement {
    Slot slot;
    void* function;
};
template <class Function>
Replacement replace(Slot slot, Function* function) {
    return {slot, reinterpret_cast<void*>(function)};
}

const Replacement replacements[] = {
    replace(clCreateCommandQueue, create_queue),
    replace(clCreateCommandQueueWithProperties, create_queue_with),
    replace(clGetDeviceInfo, device_info),
    replace(clCreateBuffer, create_buffer),
    replace(clCreateBufferWithProperties, create_buffer_with),
    replace(clCreateSubBuffer, create_part),
    replace(clCreateImage, create_image),
    replace(clCreateImageWithProperties, create_image_with),
    replace(clCreateImage2D, create_image_2d),
    replace(clCreateImage3D, create_image_3d),
    replace(clRetainMemObject, retain_memory),
    replace(clReleaseMemObject, release_memory),
    replace(clEnqueueWriteBuffer, write_buffer),
    replace(clEnqueueReadBuffer, read_buffer),
    replace(clEnqueueWriteBufferRect, write_box),
    replace(clEnqueueReadBufferRect, read_box),
    replace(clEnqueueCopyBufferRect, copy_box),
    replace(clEnqueueCopyBuffer, copy_buffer),
    replace(clEnqueueFillBuffer, fill_buffer),
    replace(clEnqueueWriteImage, write_image),
    replace(clEnqueueReadImage, read_image),
    replace(clEnqueueCopyImage, copy_image),
    replace(clEnqueueCopyImageToBuffer, copy_image_to_buffer),
    replace(clEnqueueCopyBufferToImage, copy_buffer_to_image),
    replace(clEnqueueFillImage, fill_image),
    replace(clEnqueueMapBuffer, map_buffer),
    replace(clEnqueueMapImage, map_image),
    replace(clEnqueueUnmapMemObject, unmap),
    replace(clSVMAlloc, svm_alloc),
    replace(clSVMFree, svm_free),
    replace(clEnqueueSVMMemcpy, svm_copy),
    replace(clEnqueueSVMMemFill, svm_fill),
    replace(clEnqueueSVMMap, svm_map),
    replace(clEnqueueSVMUnmap, svm_unmap),
    replace(clCreateKernel, create_kernel),
    replace(clCreateKernelsInProgram, create_kernels),
    replace(clCloneKernel, clone_kernel),
    replace(clRetainKernel, retain_kernel),
    replace(clReleaseKernel, release_kernel),
    replace(clSetKernelArg, set_argument),
    replace(clSetKernelArgSVMPointer, set_pointer),
    replace(clSetKernelExecInfo, set_exec_info),
    replace(clEnqueueNDRangeKernel, launch),
    replace(clEnqueueTask, task),
    replace(clFinish, finish),
    replace(clWaitForEvents, wait_events),
    replace(clGetEventInfo, event_info),
};

}  // namespace
}  // namespace firsttouch::opencl_layer

extern "C" __attribute__((visibility("default"))) std::int32_t clGetLayerInfo(std::uint32_t what, std::size_t bytes,
                                                                              void* value, std::size_t* needed) {
    using namespace firsttouch::opencl_layer;
    const auto answer = [&](const void* text, std::size_t size) {
        if (needed != nullptr) *needed = size;
        if (value == nullptr) return 0;
        if (bytes < size) return invalid_value;
        std::memcpy(value, text, size);
        return 0;
    };
    constexpr char name[] = "firsttouch";
    if (what == layer_version) return answer(&layer_version_100, sizeof layer_version_100);
    return what == layer_name ? answer(name, sizeof name) : invalid_value;
}

// The loader calls this when the program first uses OpenCL. A table of an older loader is shorter. If nothing is to be
// recorded, the layer changes nothing.
extern "C" __attribute__((visibility("default"))) std::int32_t
clInitLayer(std::uint32_t count, void* const* target, std::uint32_t* count_made, void* const** made) {
    using namespace firsttouch::opencl_layer;
    if (target == nullptr || count_made == nullptr || made == nullptr || next[0] != nullptr) return invalid_value;
    const std::size_t slots = std::min<std::size_t>(count, most_slots);
    std::copy_n(target, slots, next.begin());
    std::copy_n(target, slots, mine.begin());
    if (firsttouch::inject::Recording::of_this_process() != nullptr)
        for (const Replacement& of : replacements)
            if (of.slot < slots && next[of.slot] != nullptr) mine[of.slot] = of.function;
    *count_made = static_cast<std::uint32_t>(slots);
    *made = mine.data();
    return 0;
}
