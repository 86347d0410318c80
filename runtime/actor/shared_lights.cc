// Nested actors (light_home.h) in a shared host: created, called and ended here, unknown to the head.
#include <fmt/format.h>

#include <utility>

#include "runtime/actor/light_home.h"
#include "runtime/actor/shared_member.h"
#include "runtime/serialize/codec.h"
#include "runtime/store/object_store.h"

namespace volador {
namespace {

constexpr size_t kGoneMax = 10'000;                       // Ended nested actors remembered per owner.
constexpr std::chrono::milliseconds kLeaveGrace{60'000};  // For methods that still run when the last queued one ends.

}  // namespace

const Self& SharedHost::Light::self() const {
  if (!self_) {
    self_ = std::make_unique<Self>(self_of(home->start, home->scratch));
    self_->id = id;
    self_->class_name = actor_class.name;
  }
  return *self_;
}

// The last turn of a nested actor: runs its destructor.
class SharedHost::DestroyNestedTask final : public SharedThreads::Runnable {
 public:
  explicit DestroyNestedTask(std::shared_ptr<Light> light) : light_(std::move(light)) {}
  void run_turn(const std::shared_ptr<Runnable>& /*self*/, void* /*what*/) override {
    light_->enter_turn();
    guarded([&]() -> Result<std::string> {
      light_->runner.set_object(nullptr);
      return std::string();
    });
    light_->leave_turn();
  }

 private:
  const std::shared_ptr<Light> light_;
};

void SharedHost::on_light_call(net::CallRequest&& request, std::shared_ptr<net::Responder>&& responder) {
  MemberPtr made_by;
  std::shared_ptr<Light> light;
  Error gone;
  {
    const std::lock_guard hold(mutex_);
    const auto home = members_.find(home_of(request.actor));
    if (home == members_.end() || !home->second->ready || home->second->start.start().epoch() != request.epoch) {
      gone = {ErrorCode::kUnavailable,
              fmt::format("the home of actor {} is not in this shared host", short_id(request.actor))};
    } else if (request.method == LightMethods::make()) {
      made_by = home->second;
    } else if (const auto early = home->second->early.find(request.actor); early != home->second->early.end()) {
      early->second.push_back({std::move(request), std::move(responder)});  // After earlier calls for it.
      return;
    } else if (light = find_light(*home->second, request, responder, gone); !responder) {
      return;
    }
  }
  if (made_by) return make_light(made_by, std::move(request), std::move(responder));
  if (!light) return responder->reply(make_error(std::move(gone)));
  call_light(std::move(light), std::move(request), std::move(responder));
}

// Call under the mutex. Null: `gone` has the reason, or the actor is not created yet and the call is stored for it.
std::shared_ptr<SharedHost::Light> SharedHost::find_light(Member& home, net::CallRequest& request,
                                                          std::shared_ptr<net::Responder>& responder, Error& gone) {
  if (const auto found = home.lights.find(request.actor); found != home.lights.end()) return found->second;
  if (number_of(request.actor) > home.made && !home.ending) {
    const ActorId actor = request.actor;
    home.early[actor].push_back({std::move(request), std::move(responder)});
  } else if (const auto ended = home.gone.find(request.actor); ended != home.gone.end()) {
    gone = ended->second;
  } else {
    gone = {ErrorCode::kActorDied, fmt::format("actor {} has ended", short_id(request.actor))};
  }
  return nullptr;
}

void SharedHost::call_light(std::shared_ptr<Light>&& light, net::CallRequest&& request,
                            std::shared_ptr<net::Responder>&& responder) {
  CallRunner& runner = light->runner;
  const MemberPtr& home = light->home;
  if (request.method == LightMethods::look()) return responder->reply(to_bytes(light->actor_class.name));
  if (request.method == LightMethods::leave()) return leave_light(home, light, *responder);
  if (request.method != LightMethods::end())
    return runner.on_call({std::move(light), &runner}, std::move(request), std::move(responder));
  const auto grace = from_bytes<int64_t>(request.body);
  end_light(home, request.actor, std::chrono::milliseconds(grace ? *grace : 0),
            {ErrorCode::kActorDied,
             fmt::format("actor {} {} died: it was killed on request", light->actor_class.name, short_id(light->id))});
  responder->reply(to_bytes());
}

void SharedHost::make_light(const MemberPtr& home, net::CallRequest&& request,
                            std::shared_ptr<net::Responder>&& responder) {
  const ActorId actor = request.actor;
  make_light_itself(home, std::move(request), std::move(responder));
  while (true) {
    std::vector<Member::Early> early;
    {
      const std::lock_guard hold(mutex_);
      home->made = std::max(home->made, number_of(actor));
      const auto found = home->early.find(actor);
      if (found == home->early.end()) return;
      early.swap(found->second);
      if (early.empty()) {  // From here on calls go directly to it.
        home->early.erase(found);
        return;
      }
    }
    for (Member::Early& call : early) {
      std::shared_ptr<Light> light;
      Error gone;
      {
        const std::lock_guard hold(mutex_);
        light = find_light(*home, call.request, call.responder, gone);
      }
      if (light) {
        call_light(std::move(light), std::move(call.request), std::move(call.responder));
      } else if (call.responder) {
        call.responder->reply(make_error(std::move(gone)));
      }
    }
  }
}

void SharedHost::make_light_itself(const MemberPtr& home, net::CallRequest&& request,
                                   std::shared_ptr<net::Responder>&& responder) {
  auto asked = tuple_from_bytes<std::string, Bytes>(request.body);
  if (!asked) return responder->reply(make_error(std::move(asked).error()));
  const auto type = ActorClassRegistry::instance().load(std::get<0>(*asked), std::get<1>(*asked).data);
  if (!type) {
    const std::lock_guard hold(mutex_);
    remember_end(*home, request.actor, {ErrorCode::kActorDied, type.error().message});
    return responder->reply(make_error(type.error()));
  }
  auto light = std::make_shared<Light>(home, request.actor, **type);
  {
    const std::lock_guard hold(mutex_);
    if (home->ending || !home->lights.emplace(request.actor, light).second) {
      return responder->reply(make_error(ErrorCode::kUnavailable, "the actor is there already, or its home ends"));
    }
  }
  light->runner.post(runner_of(light), [this, light = light.get(), arguments = std::move(std::get<1>(*asked).data),
                                        responder = std::move(responder)] {
    auto made = make_object(light->actor_class, arguments);
    if (const auto objects = process_.session->objects_in_use()) objects->settle();
    if (made) {
      light->runner.set_object(std::move(*made));
      return responder->reply(to_bytes());
    }
    const Error error{ErrorCode::kActorDied,
                      fmt::format("actor {} {} died: its constructor threw: {}", light->actor_class.name,
                                  short_id(light->id), made.error().message)};
    end_light(light->home, light->id, std::chrono::milliseconds(0), error);
    responder->reply(make_error(error));
  });
}

// Ends the actor after the calls that came before.
void SharedHost::leave_light(const MemberPtr& home, const std::shared_ptr<Light>& light, net::Responder& responder) {
  light->runner.post(runner_of(light), [this, home, light = light.get()] {
    end_light(home, light->id, kLeaveGrace,
              {ErrorCode::kActorDied, fmt::format("actor {} {} has ended: nobody had a handle on it any more",
                                                  light->actor_class.name, short_id(light->id))});
  });
  responder.reply(to_bytes());
}

void SharedHost::remember_end(Member& home, const ActorId& light, const Error& error) {
  if (!home.gone.emplace(light, error).second) return;
  home.gone_order.push_back(light);
  if (home.gone_order.size() <= kGoneMax) return;
  home.gone.erase(home.gone_order.front());
  home.gone_order.pop_front();
}

void SharedHost::end_light(const MemberPtr& home, const ActorId& id, std::chrono::milliseconds grace,
                           const Error& error) {
  std::shared_ptr<Light> light;
  {
    const std::lock_guard hold(mutex_);
    const auto found = home->lights.find(id);
    if (found == home->lights.end()) return;
    light = std::move(found->second);
    home->lights.erase(found);
    remember_end(*home, id, error);
  }
  light->runner.stop(error, [this, light] { threads_.post(std::make_shared<DestroyNestedTask>(light), nullptr); });
  if (grace.count() <= 0) return light->runner.cut(error);
  io_.add_timer(process_.clock->now() + grace, [light, error] { light->runner.cut(error); });
}

// Ends all nested actors with their owner. The head reports its end to their callers.
void SharedHost::end_lights(const MemberPtr& home, const Error& refusal, const Error& cut) {
  std::unordered_map<ActorId, std::shared_ptr<Light>> lights;
  std::map<ActorId, std::vector<Member::Early>> early;
  {
    const std::lock_guard hold(mutex_);
    lights.swap(home->lights);
    early.swap(home->early);
  }
  for (auto& [id, calls] : early) {
    for (Member::Early& call : calls) call.responder->reply(make_error(refusal));
  }
  for (const auto& [id, light] : lights) {
    light->runner.stop(refusal,
                       [this, light = light] { threads_.post(std::make_shared<DestroyNestedTask>(light), nullptr); });
    light->runner.cut(cut);
  }
}

}  // namespace volador
