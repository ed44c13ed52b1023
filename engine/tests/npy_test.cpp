// npy files: files of numpy.save are read, and files without an image batch are refused.
#include "io/npy.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "check.h"

using namespace mpe;

namespace {

const std::string kFloats = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1, 2), }";
const std::string kBytes = "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 1, 2, 3), }";

std::string npy(const std::string& header, const std::string& data, char version = 1) {
  std::string file = std::string("\x93NUMPY") + version + '\0';
  const auto length = static_cast<std::uint32_t>(header.size());
  file.append(reinterpret_cast<const char*>(&length), version == 1 ? 2 : 4);
  return file + header + data;
}

NpyReader reader(const std::string& bytes) {
  return {std::make_unique<std::istringstream>(bytes), "a.npy"};
}

std::string floats(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

std::string header(const std::string& type, const std::string& shape) {
  return "{'descr': " + type + ", 'fortran_order': False, 'shape': " + shape + "}";
}

}  // namespace

TEST(bytes_become_planar_fractions) {
  ImageReader images(reader(npy(kBytes, {0, 51, 102, 3, 4, 5, 1, 2, 3, 4, 5, '\xff'})), {3, 1, 2});
  CHECK_EQUAL(images.images(), 2);
  std::vector<float> image(6);
  images.next(image);
  CHECK(image ==
        (std::vector<float>{0, 3 / 255.0F, 51 / 255.0F, 4 / 255.0F, 102 / 255.0F, 5 / 255.0F}));
  images.next(image);
  CHECK_EQUAL(image[5], 1.0F);
  CHECK_THROWS(images.next(image), "ends early");
}

TEST(floats_pass_unchanged) {
  for (const char version : {1, 2, 3}) {
    ImageReader images(reader(npy(kFloats, floats({-1.5F, 7}), version)), {1, 1, 2});
    std::vector<float> image(2);
    images.next(image);
    CHECK(image == (std::vector<float>{-1.5F, 7}));
  }
}

TEST(images_must_fit_the_network) {
  const std::string floats_of_two = npy(kFloats, floats({1, 2}));
  CHECK_THROWS(ImageReader(reader(floats_of_two), {1, 2, 1}), "(1, 1, 1, 2)", "(any, 1, 2, 1)");
  CHECK_THROWS(ImageReader(reader(npy(kBytes, std::string(12, 'x'))), {2, 1, 3}), "(any, 1, 3, 2)");
  CHECK_THROWS(ImageReader(reader(npy(header("'<f4'", "(2,)"), floats({1, 2}))), {1, 1, 2}),
               "shape (2,)");
  CHECK_THROWS(ImageReader(reader(npy(header("'<f4'", "(0, 1, 1, 2)"), "")), {1, 1, 2}),
               "no images");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  ImageReader images(reader(npy(kFloats, floats({1, nan}))), {1, 1, 2});
  std::vector<float> image(2);
  CHECK_THROWS(images.next(image), "image 0, element 1", "not finite");
}

TEST(sizes_must_match_exactly) {
  const std::string whole = npy(kFloats, floats({1, 2}));
  CHECK_THROWS(reader(whole + "x"), "too long", std::to_string(whole.size()));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CHECK_THROWS(reader(whole.substr(0, size)), "a.npy");
  }
  CHECK_THROWS(reader(npy(header("'<f4'", "(4294967296, 4294967296, 4294967296)"), "")),
               "truncated", "more than");
  CHECK_THROWS(reader(npy(header("'<f4'", "(99999999999999999999,)"), "")), "too large");
  CHECK_EQUAL(reader(npy(header("'<f4'", "()"), floats({1}))).shape().size(), 0U);
}

TEST(other_types_are_refused_by_name) {
  CHECK_THROWS(reader(npy(header("'<f8'", "(1,)"), std::string(8, 'x'))), "'<f8'", "astype");
  CHECK_THROWS(reader(npy(header("'>f4'", "(1,)"), std::string(4, 'x'))), "'>f4'");
  CHECK_THROWS(reader(npy(header("[('a', '<f4')]", "(1,)"), std::string(4, 'x'))), "structured");
  CHECK_THROWS(reader(npy("{'descr': '|u1', 'fortran_order': True, 'shape': (1, 1)}", "x")),
               "Fortran");
  CHECK_THROWS(reader("PK\x03\x04 an npz archive"), "not an npy file");
  CHECK_THROWS(reader(npy(kFloats, floats({1, 2}), 9)), "version 9");
  CHECK_THROWS(NpyReader("/nonexistent/a.npy"), "cannot open");
  CHECK_THROWS(NpyReader("/"), "is a folder");
}

TEST(malformed_headers_name_the_offset) {
  CHECK_THROWS(reader(npy("", "")), "offset 10");
  CHECK_THROWS(reader(npy("{'descr': '<f4'}", "")), "missing");
  CHECK_THROWS(reader(npy("{'descr': '<f4", "")), "does not end");
  CHECK_THROWS(reader(npy("{'descr': '<f4', 'descr': '<f4'}", "")), "second key");
  CHECK_THROWS(reader(npy("{'shape': (-1,)}", "")), "expected a dimension");
  CHECK_THROWS(reader(npy("{'what': 1}", "")), "unknown key 'what'");
  CHECK_THROWS(reader(npy("{'fortran_order': 0}", "")), "True or False");
  CHECK_THROWS(reader(npy(kFloats + "x", floats({1, 2}))), "follows");
}

TEST(written_arrays_are_read_back) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("npy_test." + std::to_string(getpid()))).string();
  const std::vector<std::int64_t> shape = {2, 1, 1, 2};
  {
    NpyWriter writer(path, shape);
    writer.write(std::vector<float>{1, 2});
    writer.write(std::vector<float>{3, 4});
    CHECK(!std::filesystem::exists(path));
    writer.finish();
  }
  CHECK_EQUAL(std::filesystem::file_size(path) % 64, 16U);
  NpyReader written(path);
  CHECK(written.shape() == shape);
  std::vector<float> values(4);
  written.read(std::span<float>(values));
  CHECK(values == (std::vector<float>{1, 2, 3, 4}));
  std::vector<std::uint8_t> wrong(4);
  CHECK_THROWS(written.read(std::span<std::uint8_t>(wrong)), "float32, not uint8");
  std::filesystem::remove(path);
}

TEST(more_files_are_written_side_by_side_than_may_be_open) {
  rlimit before{};
  CHECK_EQUAL(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = 24;
  CHECK_EQUAL(setrlimit(RLIMIT_NOFILE, &few), 0);
  const auto folder =
      std::filesystem::temp_directory_path() / ("npy-many-" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  {
    const std::int64_t shape[] = {2, 3};
    std::vector<std::unique_ptr<NpyWriter>> writers;
    for (int i = 0; i < 100; ++i) {
      writers.push_back(
          std::make_unique<NpyWriter>((folder / (std::to_string(i) + ".npy")).string(), shape));
    }
    const std::vector<float> row = {1.0F, 2.0F, 3.0F};
    for (int image = 0; image < 2; ++image) {
      for (const auto& writer : writers) writer->write(row);
    }
    for (const auto& writer : writers) writer->finish();
  }
  for (int i = 0; i < 100; ++i) {
    CHECK_EQUAL(std::filesystem::file_size(folder / (std::to_string(i) + ".npy")), 128U + 24U);
  }
  setrlimit(RLIMIT_NOFILE, &before);
  std::filesystem::remove_all(folder);
}

TEST(an_unfinished_file_leaves_nothing) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("npy_test_folder." + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  {
    NpyWriter writer((folder / "a.npy").string(), std::vector<std::int64_t>{3});
    writer.write(std::vector<float>{1});
    CHECK_THROWS(writer.finish(), "2 elements fewer");
  }
  CHECK(std::filesystem::is_empty(folder));
  std::filesystem::remove(folder);
  CHECK_THROWS(NpyWriter((folder / "a.npy").string(), std::vector<std::int64_t>{3}),
               "cannot write");
}
