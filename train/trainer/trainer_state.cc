#include "train/trainer/trainer_impl.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <limits>

#include "runtime/files/durable_file.h"
#include "runtime/log.h"
#include "runtime/storage/object_store.h"
#include "train/data/file_bytes.h"
#include "train/optim/state_dict.h"
#include "tune/refusal.h"

namespace volador::train {
namespace {

// Steps and epochs done by a saved run.
struct Place {
  int64_t step = 0, epoch = 0;
};

// Throws kInvalidArgument: not the bytes of a state.
Place place_of(const std::string& bytes) {
  const c10::IValue state = from_bytes(bytes);
  if (state.isGenericDict() && state.toGenericDict().contains("volador")) {
    const c10::IValue value = state.toGenericDict().at("volador");
    if (value.isGenericDict()) {
      const auto place = value.toGenericDict();
      if (place.contains("step") && place.contains("epoch"))
        return {place.at("step").toInt(), place.at("epoch").toInt()};
    }
  }
  tune::throw_refusal(
      "the state is not one of a training run: it has no \"volador\" with step and epoch; is the file a checkpoint of "
      "train::TorchTrainer?");
}

// An object of a storage.
struct Stored {
  std::unique_ptr<storage::ObjectStore> store;
  std::string key;
};

// Throws kInvalidArgument: the address is none of an object; kNotFound: rclone is missing.
Stored stored_at(const std::string& address) {
  const auto place = tune::unwrap(storage::parse_storage_url(address)).parent();
  if (!place) tune::throw_refusal(fmt::format("{}: expected the name of a file behind the bucket", address));
  return {tune::unwrap(storage::open_object_store({place->first})), place->second};
}

}  // namespace

volador::Ref<StateBytes> Trainer::Impl::state() {
  check_active();
  return of_rank_0([](const ActorHandle<RankActor>& actor) { return actor.call<&RankActor::stored_state>(); });
}

std::string Trainer::Impl::read_state(const std::filesystem::path& file) {
  if (!storage::is_storage_url(file.string())) return read_file(file);
  const Stored stored = stored_at(file.string());
  return tune::unwrap(stored.store->read(stored.key, std::numeric_limits<size_t>::max(), {}));
}

void Trainer::Impl::write_state(const std::filesystem::path& file, const volador::Ref<StateBytes>& state) {
  const StateBytes bytes = state.get();
  const std::string_view content(bytes.data(), bytes.size());
  if (!storage::is_storage_url(file.string())) return tune::unwrap(write_file_atomically(file, content));
  const Stored stored = stored_at(file.string());
  tune::unwrap(stored.store->write(stored.key, content, {}));
}

void Trainer::Impl::keep_state() {
  const auto ranks = coordinator.members();
  const auto found = ranks.empty() ? members.end() : members.find(ranks.front());
  if (!options.copy_state || found == members.end()) return;
  const auto box = inbox;
  const auto actor = found->second.actor;
  actor.call<&RankActor::copy_state>().then([box, actor, loads = loads, step = step](const Result<uint64_t>& number) {
    if (!number) return;
    actor.call<&RankActor::stored_copy>(*number).then([box, loads, step](Result<volador::Ref<StateBytes>> state) {
      if (!state && state.error().code == ErrorCode::kApplication) log::warn("train", state.error().message);
      if (!state) return;
      // This program's node gets a copy of its own, which outlives the rank's node.
      state->any().when_ready([] {});
      box->post([loads, step, state = *state](Impl& impl) {
        if (loads != impl.loads) return;
        impl.kept = state;
        impl.kept_step = step;
      });
    });
  });
}

std::future<void> Trainer::Impl::save_async(const std::filesystem::path& file) {
  check_active();
  auto written = std::make_shared<std::promise<void>>();
  auto stored = of_rank_0([](const ActorHandle<RankActor>& actor) { return actor.call<&RankActor::copy_state>(); });
  const auto found = members.find(coordinator.members().front());
  writer.post([file, written, state = found->second.actor.call<&RankActor::stored_copy>(stored)]() mutable {
    try {
      write_state(file, state.get());
      written->set_value();
    } catch (...) {
      written->set_exception(std::current_exception());
    }
    return JobThread::Then();
  });
  return written->get_future();
}

void Trainer::Impl::load_state(const std::string& bytes) {
  check_active();
  const Place place = place_of(bytes);
  const auto state = volador::put(StateBytes(std::span<const char>(bytes), nullptr));
  for (size_t loaded = 0; loaded == 0;) {
    ensure_formed();
    std::vector<std::pair<MemberId, Future<void>>> replies;
    for (const MemberId id : coordinator.members()) {
      const auto found = members.find(id);
      if (found != members.end()) replies.emplace_back(id, found->second.actor.call<&RankActor::load>(state));
    }
    for (const auto& [id, reply] : replies) {
      auto result = answer_of(id, reply);
      if (result) {
        ++loaded;
        members.at(id).has_state = true;
        members.at(id).step = place.step;
      } else if (result.error().code == ErrorCode::kApplication || result.error().code == ErrorCode::kInvalidArgument) {
        throw Exception(std::move(result).error());
      } else {
        lose(id, result.error().message);
      }
    }
    check_active();
  }
  handle(elastic::StateReplaced{{place.step}});
  ++loads;
  kept = state;
  kept_step = place.step;
  step = place.step;
  epoch = place.epoch;
}

}  // namespace volador::train
