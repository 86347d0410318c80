// A head with its dashboard beside it: the two meet here only.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "dashboard/alert.h"
#include "head/shell/head_process.h"
#include "runtime/clock.h"
#include "runtime/result.h"
#include "runtime/security/own_certificate.h"

namespace volador {

struct DashboardPlace {
  int port = 0;            // 0: that of last time, else a free one.
  std::string public_url;  // Of a proxy before it; empty: none.
  std::optional<security::OwnCertificateFiles> certificate = {};  // TLS with it, on the loopback too.
  std::optional<dashboard::Webhook> alerts = {};
  std::string alert_secret = {};
};

class HeadRole {
 public:
  // Serves when it returns; without `dashboard` a head alone. Beyond the loopback the dashboard speaks TLS with a certificate of the
  // cluster's own authority, unless its owner brings one. Errors as HeadProcess::start and Dashboard::start; nothing is left running then.
  [[nodiscard]] static Result<std::unique_ptr<HeadRole>> start(head::HeadOptions options, const std::optional<DashboardPlace>& dashboard, const Clock& clock,
                                                               Random& random);
  // As stop().
  ~HeadRole();

  head::HeadProcess& head();
  // Empty: there is none.
  std::string dashboard_url() const;
  // A fresh link that signs in once. kNotFound: there is no dashboard.
  Result<std::string> login_link();
  void stop();

 private:
  struct Impl;
  explicit HeadRole(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace volador
