// The C interface gives the results of the C++ one, and reports errors.
#include <string>
#include <vector>

#include "check.h"
#include "exec/session.h"
#include "mpe.h"
#include "random_network.h"

namespace {

const std::string kCfg =
    "[net]\nwidth=8\nheight=6\nchannels=3\n[convolutional]\nfilters=6\nsize=3\npad=1\n"
    "[yolo]\nmask=0\nanchors=1,1\nnum=1\nclasses=1\n";

}  // namespace

TEST(a_session_runs_and_gives_its_heads) {
  const ModelFiles files(kCfg, 3);
  mpe_options options = mpe_default_options();
  CHECK_EQUAL(options.threads, 1);
  CHECK_EQUAL(options.bn_epsilon, 1e-5F);
  options.threads = 2;
  options.prefer = MPE_PREFER_MEMORY;
  mpe_session* session = mpe_open(files.cfg.c_str(), files.weights.c_str(), &options);
  CHECK(session != nullptr);
  const mpe_shape input = mpe_input_shape(session);
  CHECK(input.channels == 3 && input.height == 6 && input.width == 8);
  CHECK_EQUAL(mpe_input_count(session), 1);
  CHECK_EQUAL(mpe_shape_of_input(session, 0).width, 8);
  CHECK_EQUAL(mpe_shape_of_input(session, 1).width, 0);
  CHECK(std::string(mpe_error()).find("no input 1") != std::string::npos);
  CHECK_EQUAL(mpe_head_count(session), 1);
  mpe_head head;
  CHECK_EQUAL(mpe_describe_head(session, 0, &head), 0);
  CHECK_EQUAL(head.layer, 0);
  CHECK_EQUAL(head.count, std::size_t{6 * 6 * 8});

  std::vector<float> values(head.count);
  CHECK_EQUAL(mpe_read_head(session, 0, values.data(), values.size()), -1);
  CHECK(std::string(mpe_error()).find("before the first run") != std::string::npos);
  const std::vector<float> image(3 * 6 * 8, 0.5F);
  CHECK_EQUAL(mpe_run(session, image.data(), image.size()), 0);
  CHECK_EQUAL(mpe_read_head(session, 0, values.data(), values.size()), 0);
  mpe_close(session);

  mpe::Options same_options;
  same_options.prefer = mpe::Preference::kMemory;  // or another algorithm may round otherwise
  mpe::Session same(files.cfg, files.weights, same_options);
  same.run(image);
  std::vector<float> expected(values.size());
  same.read(0, expected);
  CHECK(values == expected);
}

TEST(null_pointers_are_failures) {
  const ModelFiles files(kCfg, 3);
  const auto fails = [](bool failed, const char* name) {
    CHECK(failed);
    CHECK_EQUAL(std::string(mpe_error()), std::string(name) + " is a null pointer");
  };
  fails(mpe_open(nullptr, files.weights.c_str(), nullptr) == nullptr, "cfg");
  fails(mpe_open(files.cfg.c_str(), nullptr, nullptr) == nullptr, "weights");
  const mpe_shape shape = mpe_input_shape(nullptr);
  fails(shape.channels == 0 && shape.height == 0 && shape.width == 0, "session");
  fails(mpe_input_count(nullptr) == -1, "session");
  fails(mpe_shape_of_input(nullptr, 0).channels == 0, "session");
  fails(mpe_head_count(nullptr) == -1, "session");
  mpe_head head;
  float value = 0;
  fails(mpe_run(nullptr, &value, 1) == -1, "session");
  fails(mpe_describe_head(nullptr, 0, &head) == -1, "session");
  fails(mpe_read_head(nullptr, 0, &value, 1) == -1, "session");
  mpe_session* session = mpe_open(files.cfg.c_str(), files.weights.c_str(), nullptr);
  const std::vector<float> image(3 * 6 * 8);
  fails(mpe_run(session, nullptr, image.size()) == -1, "input");
  fails(mpe_describe_head(session, 0, nullptr) == -1, "description");
  CHECK_EQUAL(mpe_run(session, image.data(), image.size()), 0);
  fails(mpe_read_head(session, 0, nullptr, 6 * 6 * 8) == -1, "values");
  mpe_close(session);
}

TEST(failures_give_a_status_and_a_sentence) {
  const ModelFiles files(kCfg, 3);
  CHECK(mpe_open("/absent/net.cfg", files.weights.c_str(), nullptr) == nullptr);
  CHECK(std::string(mpe_error()).find("/absent/net.cfg") != std::string::npos);
  CHECK(mpe_open(nullptr, nullptr, nullptr) == nullptr);
  mpe_options options = mpe_default_options();
  options.prefer = 7;
  CHECK(mpe_open(files.cfg.c_str(), files.weights.c_str(), &options) == nullptr);
  mpe_session* session = mpe_open(files.cfg.c_str(), files.weights.c_str(), nullptr);
  const std::vector<float> image(3 * 6 * 8);
  CHECK_EQUAL(mpe_run(session, image.data(), 7), -1);
  CHECK_EQUAL(mpe_run(session, nullptr, image.size()), -1);
  mpe_head head;
  CHECK_EQUAL(mpe_describe_head(session, 1, &head), -1);
  CHECK_EQUAL(mpe_describe_head(session, -1, &head), -1);
  CHECK_EQUAL(mpe_run(session, image.data(), image.size()), 0);
  float value = 0;
  CHECK_EQUAL(mpe_read_head(session, 0, &value, 1), -1);
  mpe_close(session);
  mpe_close(nullptr);
}
