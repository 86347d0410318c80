// Interface of the head's sign-in by an OpenID Connect provider to a server of web pages in the same process.
#pragma once

#include <functional>
#include <string>

#include "runtime/result.h"

namespace volador::security {

// Thread safe; returns at once. `done` runs once on any thread; a stopping head may drop it.
class SignOnService {
 public:
  template <class T>
  using Done = std::function<void(Result<T>)>;

  virtual ~SignOnService() = default;

  // Name of the provider, for people.
  virtual std::string label() const = 0;

  struct Begin {
    std::string next;       // Path to show after the sign-in; see check_next().
    std::string user_code;  // Code of the command line that the sign-in is for; empty: for the browser.
    std::string peer;       // The browser's address without a port.
  };
  struct Begun {
    std::string url;      // Where the browser goes.
    std::string binding;  // Secret that the browser must have when it comes back.
  };
  virtual void begin(Begin request, Done<Begun> done) = 0;

  // What the provider sends the browser back with.
  struct Callback {
    std::string state, code, error, issuer;
    std::string binding;
    std::string peer;
  };
  struct Finished {
    std::string token;  // Text of the user's token; empty: a command line waits for the approval.
    std::string next;
    std::string approval;   // Secret for approve().
    std::string user_code;  // Code of the command line.
    std::string user;       // Whom it would act for.
    std::string device;     // Its address.
  };
  virtual void finish(Callback callback, Done<Finished> done) = 0;

  // Gives the command line its token. kNotFound: no such approval, or it is used or expired.
  virtual void approve(std::string approval, Done<std::string> done) = 0;
};

// Whether a path may be shown after a sign-in: a place of the page such as "/#/jobs", never another server.
// kInvalidArgument.
[[nodiscard]] Result<void> check_next(std::string_view next);

}  // namespace volador::security
