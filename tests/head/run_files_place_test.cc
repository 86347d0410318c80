#include <variant>

#include "tests/head/core_fixture.h"

namespace volador::head {
namespace {

class RunFilesPlaceTest : public CoreFixture {
 protected:
  void join_on(NodeSession session, uint8_t node, const std::string& machine) {
    auto message = registration(node, 2);
    message.mutable_register_()->set_machine_id(machine);
    take(core->on_node_message(now, session, message));
  }
  void hello_from(const std::string& machine) {
    protocol::ClientMessage message;
    protocol::Hello& body = *message.mutable_hello();
    body.set_protocol_version(1);
    body.set_driver_id(raw(test_id<DriverId>(1)));
    body.set_machine_id(machine);
    take(core->on_client_message(now, kDriver1, message));
  }
  void report(const std::string& name, const std::string& directory) {
    protocol::ClientMessage message;
    message.mutable_experiment()->set_experiment(name);
    message.mutable_experiment()->set_state("running");
    message.mutable_experiment()->set_directory(directory);
    send(message);
  }
  // The members that can read the files, in the order of requests.
  std::vector<std::string> readers(const std::string& name) const {
    const auto place = core->lookups().find_run_files(name);
    std::vector<std::string> who;
    if (place) {
      for (const auto& reader : place->readers) who.push_back(reader.who);
    }
    return who;
  }
};

TEST_F(RunFilesPlaceTest, NodesOfTheMachineThenTheProgram) {
  join_on(kNode1, 1, "m1");
  join_on(kNode2, 2, "m2");
  join_on(NodeSession{3}, 3, "m2");
  hello_from("m2");
  report("digits", "/runs/digits");
  EXPECT_EQ(readers("digits"), (std::vector<std::string>{"node n2", "node n3", "the program"}));
  const auto place = core->lookups().find_run_files("digits");
  EXPECT_EQ(place->directory, "/runs/digits");
  EXPECT_EQ(std::get<NodeSession>(place->readers[0].session), kNode2);
  EXPECT_EQ(std::get<ClientSession>(place->readers[2].session), kDriver1);
}

TEST_F(RunFilesPlaceTest, OnlyWhoIsConnectedAndAfterwardsNobody) {
  join_on(kNode1, 1, "m1");
  join_on(kNode2, 2, "m2");
  hello_from("m2");
  report("digits", "/runs/digits");
  take(core->on_client_lost(now, kDriver1));
  EXPECT_EQ(readers("digits"), std::vector<std::string>{"node n2"});
  take(core->on_node_lost(now, kNode2));
  const auto place = core->lookups().find_run_files("digits");
  ASSERT_FALSE(place);
  EXPECT_EQ(place.error().code, ErrorCode::kInfeasible);
  EXPECT_NE(place.error().message.find("/runs/digits"), std::string::npos) << place.error().message;
  join_on(NodeSession{9}, 2, "m2");
  EXPECT_EQ(readers("digits"), std::vector<std::string>{"node n2"});
}

TEST_F(RunFilesPlaceTest, WhereTheMachineIsNotKnownNoNodeIsTakenForIt) {
  join(kNode1, 1, 2);  // Does not report its machine.
  hello();
  report("digits", "/runs/digits");
  EXPECT_EQ(readers("digits"), std::vector<std::string>{"the program"});
  report("bare", "");
  EXPECT_EQ(core->lookups().find_run_files("bare").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(core->lookups().find_run_files("nothing").error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace volador::head
