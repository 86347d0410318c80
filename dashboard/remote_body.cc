#include "dashboard/remote_body.h"

#include <utility>

namespace volador::dashboard {

void RemoteBody::next(Done done) {
  waiting_ = std::move(done);
  if (ahead_) return hand_over();
  if (!asked_) ask();
}

// A closed connection destroys this object; the reply is then dropped.
void RemoteBody::ask() {
  asked_ = true;
  pieces_->next([self = weak_from_this(), to_here = to_here_](Result<std::string> piece) {
    to_here([self, piece = std::move(piece)]() mutable {
      if (const auto here = self.lock()) here->arrived(std::move(piece));
    });
  });
}

void RemoteBody::arrived(Result<std::string> piece) {
  asked_ = false;
  ended_ = !piece || piece->empty();
  ahead_ = std::move(piece);
  if (waiting_) hand_over();
}

void RemoteBody::hand_over() {
  const Done done = std::exchange(waiting_, nullptr);
  Result<std::string> piece = *std::exchange(ahead_, std::nullopt);
  if (!ended_) ask();
  done(std::move(piece));
}

}  // namespace volador::dashboard
