// Settings of reports: their rules and their secrets. Pure.
#pragma once

#include <string>

#include "runtime/protocol/volador/v1/jobs.pb.h"
#include "runtime/result.h"

namespace volador::jobs {

// Stands for a secret in replies; in requests for the stored one.
inline constexpr std::string_view kHiddenSecret = "***";

// Puts the stored secrets where the request has only hidden ones. kInvalidArgument: none is stored; the message names
// the field.
Result<void> keep_secrets(const v1::QueueSettings& stored, v1::QueueSettings& given);
// The settings with hidden secrets: of the addresses of webhooks, which contain keys, only the machine is left.
v1::QueueSettings without_secrets(v1::QueueSettings settings);

// Checks the notifications and the mail server, and fills in the defaults of the latter. kInvalidArgument: a field
// breaks its rule; the message names the field, the value, unless it is a secret, and the rule.
Result<void> check_notifications(v1::QueueSettings& settings);

// Whether the settings can report to those that a job names. kNotFound: a name is unknown; the message has the known
// ones. kInvalidArgument: a mail address is none, or there is no mail server.
Result<void> check_notify(const v1::QueueSettings& settings, const v1::JobSpec& spec);

}  // namespace volador::jobs
