// The certificate of the cluster's authority, which processes of jobs keep for each other in their node's folder: with it
// a connection to the head needs no other one before it that asks for the certificate.
#pragma once

#include <string>

#include "runtime/security/token.h"

namespace volador::control {

// As PEM. Empty: none with this fingerprint is kept, or this process is in no job of a node that it can reach.
[[nodiscard]] std::string kept_authority(const security::Fingerprint& expected);
// Does nothing outside jobs.
void keep_authority(const std::string& certificate_pem);

}  // namespace volador::control
