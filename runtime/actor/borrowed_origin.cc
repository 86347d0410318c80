#include "runtime/actor/borrowed_origin.h"

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "runtime/actor/ref.h"
#include "runtime/actor/session.h"

namespace volador {
namespace {

using ObjectPtr = std::shared_ptr<const StoredObject>;

// Accepts the transferred reference that the owner sent.
Result<ObjectPtr> read_reference(const std::string& bytes) {
  const RefScope scope(RefScope::Kind::kReceiveAnswer);
  Decoder decoder(bytes);
  AnyRef ref;
  volador_decode(decoder, ref);
  if (decoder.failed()) return make_error(*decoder.error());
  if (!ref.is_stored())
    return make_error(ErrorCode::kObjectLost, "its owner answered with something else than an object");
  return ref.stored();
}

class BorrowedOrigin final : public ObjectOrigin, public std::enable_shared_from_this<BorrowedOrigin> {
 public:
  BorrowedOrigin(std::string_view owner, const ObjectKey& object) : owner_(owner), object_(object) {}

  const std::string& owner() const override { return owner_; }
  bool is_borrowed() const override { return true; }
  int length() const override { return 1; }
  ObjectPtr replacement(size_t /*index*/) const override {
    const std::lock_guard<std::mutex> hold(mutex_);
    return made_.lock();
  }
  void rebuild(size_t /*index*/, int depth, Done done) override {
    ObjectPtr made;
    bool first = false;
    {
      const std::lock_guard<std::mutex> hold(mutex_);
      made = made_.lock();
      if (!made) {
        waiting_.push_back(std::move(done));
        first = waiting_.size() == 1;
      }
    }
    if (made) return done(std::move(made));
    if (!first) return;
    if (!Session::has_current()) return finish(make_error(ErrorCode::kObjectLost, "this process has left the cluster"));
    Session::current()->rebuild(owner_, object_, depth, [self = shared_from_this()](Result<std::string> reference) {
      self->finish(reference ? read_reference(*reference) : make_error(std::move(reference).error()));
    });
  }

 private:
  void finish(Result<ObjectPtr> made) {
    std::vector<Done> waiting;
    {
      const std::lock_guard<std::mutex> hold(mutex_);
      if (made) made_ = *made;
      waiting.swap(waiting_);
    }
    for (const Done& done : waiting) done(made);
  }

  const std::string owner_;
  const ObjectKey object_;
  mutable std::mutex mutex_;
  std::vector<Done> waiting_;
  std::weak_ptr<const StoredObject> made_;
};

}  // namespace

std::shared_ptr<ObjectOrigin> borrow_origin(std::string_view owner, const ObjectKey& object) {
  return std::make_shared<BorrowedOrigin>(owner, object);
}

}  // namespace volador
