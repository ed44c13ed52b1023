// Files are read completely; folders, pipes and devices are refused before reading can block.
#include "io/file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "check.h"

using namespace mpe;

namespace {

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "mpe-file-test-XXXXXX").string();
    CHECK(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string operator/(const char* name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace

TEST(a_file_is_read_whole_up_to_a_limit) {
  const Folder folder;
  const std::string path = folder / "a.cfg";
  const std::string content(200'000, 'x');
  std::ofstream(path, std::ios::binary) << content;
  CHECK_EQUAL(read_file(path, content.size()), content);
  CHECK_THROWS(read_file(path, content.size() - 1), path, "larger than 199999 bytes");
  const auto stream = open_file(path);
  CHECK_EQUAL(std::string(std::istreambuf_iterator<char>(*stream), {}), content);
  std::filesystem::create_symlink("a.cfg", folder / "link");
  CHECK_EQUAL(read_file(folder / "link", content.size()), content);
}

TEST(irregular_files_are_refused) {
  const Folder folder;
  const std::string pipe = folder / "pipe";
  CHECK(mkfifo(pipe.c_str(), 0600) == 0);  // without a writer, opening it waits
  std::filesystem::create_symlink("pipe", folder / "link");
  for (const std::string& path : {pipe, folder / "link", std::string("/dev/zero")}) {
    CHECK_THROWS(read_file(path, 1 << 20), path, "is not a file; name a regular file");
    CHECK_THROWS(open_file(path), path, "is not a file; name a regular file");
  }
  CHECK_THROWS(read_file("/", 1 << 20), "/: is a folder; name a regular file");
  CHECK_THROWS(read_file(folder / "gone", 1 << 20), "cannot open: No such file");
  CHECK_THROWS(open_file(folder / "gone"), "cannot open: No such file");
}
