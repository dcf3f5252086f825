#include "comm/exchange.hpp"

#include <algorithm>
#include <stdexcept>

#include "host/clock.hpp"

namespace firsttouch {
namespace {

constexpr std::size_t place_bytes = 256;  // staged messages begin at multiples of this

void check(const Parcel& parcel) {
    if (parcel.offset > parcel.buffer->size() || parcel.bytes > parcel.buffer->size() - parcel.offset)
        throw std::invalid_argument("a message exceeds its buffer");
}

std::vector<Parcel> those(const std::vector<Parcel>& parcels, int own, bool to_itself) {
    std::vector<Parcel> chosen;
    std::ranges::copy_if(parcels, std::back_inserter(chosen), [&](const Parcel& parcel) {
        check(parcel);
        return parcel.bytes > 0 && (parcel.peer == own) == to_itself;
    });
    return chosen;
}

// Where each message is in the memory through which it is staged. Throws if that is too small.
std::vector<std::size_t> places_of(const std::vector<Parcel>& parcels, const Buffer& staging) {
    std::vector<std::size_t> places;
    std::size_t end = 0;
    for (const Parcel& parcel : parcels) {
        places.push_back(end);
        end += (parcel.bytes + place_bytes - 1) / place_bytes * place_bytes;
    }
    if (end > staging.size())
        throw std::invalid_argument("the messages exceed the memory through which they are staged");
    return places;
}

std::vector<Message> staged(const std::vector<Parcel>& parcels, const std::vector<std::size_t>& places,
                            const HostView& staging) {
    std::vector<Message> messages;
    for (std::size_t i = 0; i < parcels.size(); ++i)
        messages.push_back({parcels[i].peer, staging.as<char>() + places[i], parcels[i].bytes});
    return messages;
}

void carry_staged(Lab& lab, Comm& comm, const ExchangeRequest& request, const std::vector<Parcel>& outgoing,
                  const std::vector<Parcel>& incoming) {
    const Buffer &out = *request.staging_out, &in = *request.staging_in;
    const auto out_places = places_of(outgoing, out), in_places = places_of(incoming, in);
    for (std::size_t i = 0; i < outgoing.size(); ++i)
        lab.device().copy(lab.stream(), out, out_places[i], *outgoing[i].buffer, outgoing[i].offset, outgoing[i].bytes);
    lab.device().wait(lab.stream());
    {
        const HostView out_view(out), in_view(in);
        comm.exchange(staged(outgoing, out_places, out_view), staged(incoming, in_places, in_view));
    }
    for (std::size_t i = 0; i < incoming.size(); ++i)
        lab.device().copy(lab.stream(), *incoming[i].buffer, incoming[i].offset, in, in_places[i], incoming[i].bytes);
    lab.device().wait(lab.stream());
}

void carry_in_place(Lab& lab, Comm& comm, bool by_device, const std::vector<Parcel>& outgoing,
                    const std::vector<Parcel>& incoming) {
    std::map<const Buffer*, RankBuffer> buffers;
    const auto messages = [&](const std::vector<Parcel>& parcels) {
        std::vector<Message> messages;
        for (const auto& [peer, buffer, offset, bytes] : parcels) {
            const auto at = buffers.try_emplace(buffer, lab, *buffer, by_device).first;
            messages.push_back({peer, at->second.address() + offset, bytes});
        }
        return messages;
    };
    const auto from = messages(outgoing), to = messages(incoming);
    comm.exchange(from, to);
}

}  // namespace

double exchange(Lab& lab, Comm* comm, const ExchangeRequest& request) {
    const int own = comm == nullptr ? 0 : comm->rank();
    const auto from_itself = those(request.outgoing, own, true), to_itself = those(request.incoming, own, true);
    const auto outgoing = those(request.outgoing, own, false), incoming = those(request.incoming, own, false);
    const auto same = [](const Parcel& a, const Parcel& b) { return a.bytes == b.bytes; };
    if (!std::ranges::equal(from_itself, to_itself, same))
        throw std::invalid_argument("a message to this rank itself has no counterpart of the same size");
    if (comm == nullptr && !(outgoing.empty() && incoming.empty()))
        throw std::invalid_argument("a rank that is alone has no others to send to");
    const double start = now();
    for (std::size_t i = 0; i < from_itself.size(); ++i)
        lab.device().copy(lab.stream(), *to_itself[i].buffer, to_itself[i].offset, *from_itself[i].buffer,
                          from_itself[i].offset, from_itself[i].bytes);
    if (!(outgoing.empty() && incoming.empty())) {
        if (request.staging_out != nullptr && request.staging_in != nullptr)
            carry_staged(lab, *comm, request, outgoing, incoming);
        else
            carry_in_place(lab, *comm, request.device_addresses, outgoing, incoming);
    }
    if (!from_itself.empty()) lab.device().wait(lab.stream());
    return now() - start;
}

Receives::Receives(Lab& lab, Comm& comm, std::vector<Parcel> incoming, const Buffer* staging, bool device_addresses)
    : lab_(lab), comm_(comm), incoming_(std::move(incoming)), staging_(staging), device_addresses_(device_addresses) {
    std::ranges::for_each(incoming_, check);
    if (staging_ != nullptr) places_ = places_of(incoming_, *staging_);
    for (std::size_t i = 0; i < incoming_.size(); ++i) {
        const auto& [peer, buffer, offset, bytes] = incoming_[i];
        char* at = staging_ == nullptr ? address_of(*buffer) + offset : address_of(*staging_) + places_[i];
        numbers_.push_back(comm_.start_receive(at, bytes, peer));
    }
}

char* Receives::address_of(const Buffer& buffer) {
    const bool by_device = device_addresses_ && staging_ == nullptr;
    return buffers_.try_emplace(&buffer, lab_, buffer, by_device).first->second.address();
}

std::vector<std::size_t> Receives::finish(const std::vector<Parcel>& outgoing, const Buffer* staging) {
    std::ranges::for_each(outgoing, check);
    Device& device = lab_.device();
    const auto places = staging == nullptr ? std::vector<std::size_t>() : places_of(outgoing, *staging);
    for (std::size_t i = 0; i < places.size(); ++i)
        if (const auto& [peer, buffer, offset, bytes] = outgoing[i]; bytes > 0)
            device.copy(lab_.stream(), *staging, places[i], *buffer, offset, bytes);
    if (staging != nullptr) device.wait(lab_.stream());
    for (std::size_t i = 0; i < outgoing.size(); ++i) {
        const auto& [peer, buffer, offset, bytes] = outgoing[i];
        comm_.start_send(staging == nullptr ? address_of(*buffer) + offset : address_of(*staging) + places[i], bytes,
                         peer);
    }
    std::vector<std::size_t> arrived;
    for (const int number : numbers_) arrived.push_back(comm_.finish_receive(number));
    comm_.finish_all();
    buffers_.clear();
    for (std::size_t i = 0; i < places_.size(); ++i)
        if (arrived[i] > 0)
            device.copy(lab_.stream(), *incoming_[i].buffer, incoming_[i].offset, *staging_, places_[i], arrived[i]);
    if (staging_ != nullptr) device.wait(lab_.stream());
    return arrived;
}

}  // namespace firsttouch
