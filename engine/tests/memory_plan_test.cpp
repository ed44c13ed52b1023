// Packing of blocks with lifetimes, and what shares memory in a network.
#include <random>
#include <string>
#include <vector>

#include "check.h"
#include "plan/arena.h"
#include "plan/memory.h"
#include "random_network.h"

using namespace mpe;

namespace {

Network network(const std::string& sections) {
  return parse_network("[net]\nwidth=16\nheight=16\nchannels=4\n" + sections, "a.cfg");
}

std::string conv(int filters, const std::string& keys = "") {
  return "[convolutional]\nfilters=" + std::to_string(filters) + "\nactivation=linear\n" + keys +
         "\n";
}

MemoryPlan plan(const Network& of, Preference prefer = Preference::kMemory) {
  const PrecisionPlan precisions = plan_precisions(of, nullptr);
  return plan_memory(of, precisions, std::vector<LayerScratch>(of.layers.size()), prefer);
}

constexpr std::int64_t kMap = 16 * 16 * 4;  // bytes of one float channel

bool overlap(const ArenaBlock& a, const ArenaBlock& b) {
  return a.bytes > 0 && b.bytes > 0 && a.first <= b.last && b.first <= a.last &&
         a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

}  // namespace

TEST(packed_blocks_in_use_together_never_overlap) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<ArenaBlock> blocks(1 + random() % 40);
    for (ArenaBlock& block : blocks) {
      block.bytes = static_cast<std::int64_t>(random() % 5000);
      block.first = static_cast<int>(random() % 30);
      block.last = block.first + static_cast<int>(random() % 8);
    }
    const std::int64_t bytes = pack_arena(blocks);
    int wrong = 0;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      if (blocks[i].offset % kArenaAlignment != 0) ++wrong;
      if (blocks[i].offset + blocks[i].bytes > bytes) ++wrong;
      for (std::size_t k = 0; k < i; ++k) wrong += overlap(blocks[i], blocks[k]) ? 1 : 0;
    }
    CHECK_EQUAL(wrong, 0);
    CHECK(bytes >= peak_of(blocks));
  }
}

TEST(an_arena_beyond_all_boards_is_refused) {
  const Network of = network(conv(1) + conv(2) + conv(3));
  const PrecisionPlan precisions = plan_precisions(of, nullptr);
  std::vector<LayerScratch> scratch(of.layers.size());
  scratch[1].kernel = kMostArenaBytes - (1 << 20);
  CHECK(plan_memory(of, precisions, scratch, Preference::kSpeed).arena_bytes < kMostArenaBytes);
  scratch[1].kernel = kMostArenaBytes;
  CHECK_THROWS(plan_memory(of, precisions, scratch, Preference::kSpeed), "a.cfg:9", "layer 1",
               "8589934592");
}

TEST(a_chain_needs_its_two_largest_neighbours) {
  const MemoryPlan chain = plan(network(conv(2) + conv(8) + conv(4) + conv(1)));
  CHECK_EQUAL(chain.arena_bytes, 12 * kMap);
  CHECK_EQUAL(chain.live_bytes, 12 * kMap);
}

TEST(layers_that_change_nothing_take_no_memory) {
  const MemoryPlan views = plan(network(conv(4) + "[dropout]\n" + conv(4, "stride=2") +
                                        "[route]\nlayers=0\ngroups=2\ngroup_id=1\n" + conv(4)));
  CHECK(views.layers[1].is_view);
  CHECK_EQUAL(views.layers[1].output, views.layers[0].output);
  CHECK(views.layers[3].is_view);
  CHECK_EQUAL(views.layers[3].output, views.layers[0].output + 2 * kMap);
  // A dropout on the network's input has to copy: the input is the caller's.
  CHECK(!plan(network("[dropout]\n" + conv(1))).layers[0].is_view);
}

TEST(a_shortcut_overwrites_an_input_only_if_nobody_needs_it) {
  const MemoryPlan dies = plan(network(conv(4) + conv(4) + "[shortcut]\nfrom=-2\n" + conv(1)));
  CHECK(dies.layers[2].output == dies.layers[1].output ||
        dies.layers[2].output == dies.layers[0].output);
  CHECK_EQUAL(dies.arena_bytes, 8 * kMap);
  const MemoryPlan needed = plan(network(conv(4) + conv(4) + "[shortcut]\nfrom=-2\n" + conv(4) +
                                         "[route]\nlayers=0,1,2,3\n" + conv(1)));
  for (const int input : {0, 1}) {
    CHECK(needed.layers[2].output != needed.layers[static_cast<std::size_t>(input)].output);
  }
}

TEST(a_convolution_that_can_overwrites_an_input_only_if_nobody_needs_it) {
  const auto planned = [](const Network& of, bool in_place) {
    std::vector<LayerScratch> scratch(of.layers.size());
    scratch[1].in_place = in_place;
    return plan_memory(of, plan_precisions(of, nullptr), scratch, Preference::kMemory);
  };
  const Network chain = network(conv(8) + conv(8) + conv(1));
  CHECK_EQUAL(planned(chain, false).arena_bytes, 16 * kMap);
  CHECK_EQUAL(planned(chain, true).arena_bytes, 9 * kMap);
  CHECK_EQUAL(planned(chain, true).layers[1].output, planned(chain, true).layers[0].output);

  const Network wider = network(conv(8) + conv(9) + conv(1));
  CHECK_EQUAL(planned(wider, true).arena_bytes, 17 * kMap);

  const Network needed =
      network(conv(8) + conv(8) + "[shortcut]\nfrom=-2\nactivation=linear\n" + conv(1));
  CHECK_EQUAL(planned(needed, true).arena_bytes, 16 * kMap);
}

TEST(inputs_of_a_route_lie_in_its_output) {
  const MemoryPlan joined =
      plan(network(conv(4) + conv(2) + "[route]\nlayers=-1,-2\n" + conv(1, "stride=2")));
  CHECK_EQUAL(joined.layers[1].output, joined.layers[2].output);
  CHECK_EQUAL(joined.layers[0].output, joined.layers[2].output + 2 * kMap);
  CHECK_EQUAL(joined.arena_bytes, 6 * kMap + kMap / 4);
  // The same tensor twice can lie in one place only.
  const MemoryPlan twice = plan(network(conv(4) + "[route]\nlayers=-1,-1\n" + conv(1)));
  CHECK(twice.layers[0].output != twice.layers[1].output ||
        twice.layers[0].output != twice.layers[1].output + 4 * kMap);
}

TEST(memory_is_preferred_to_fewer_copies_only_when_asked) {
  // Joining the small early tensor into the route's output holds that large output all along.
  const Network of =
      network(conv(1) + conv(16) + conv(15) + conv(16) + "[route]\nlayers=0,-1\n" + conv(1));
  const MemoryPlan small = plan(of, Preference::kMemory);
  const MemoryPlan fast = plan(of, Preference::kSpeed);
  CHECK(small.arena_bytes <= fast.arena_bytes);
  CHECK(4 * small.arena_bytes <= 5 * small.live_bytes);
  CHECK(4 * fast.arena_bytes <= 5 * fast.live_bytes);
}

TEST(random_networks_need_at_most_a_quarter_more_than_their_live_tensors) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    Random random(seed);
    const Network of = parse_network(random_cfg(random, 30, [] { return ""; }), "random.cfg");
    for (const Preference prefer : {Preference::kSpeed, Preference::kMemory}) {
      const MemoryPlan packed = plan(of, prefer);
      CHECK(packed.arena_bytes <= packed.live_bytes + packed.live_bytes / 4);
    }
  }
}

TEST(heads_are_what_terminal_layers_read_and_the_output) {
  const std::string yolo = "[yolo]\nmask=0\nanchors=1,1\nnum=1\nclasses=1\n";
  const Network detector = network(conv(6) + yolo + "[route]\nlayers=0\n" + conv(6) + yolo);
  CHECK(find_heads(detector) == (std::vector<int>{0, 3}));
  const Network classifier = network(conv(6) + "[avgpool]\n[dropout]\n[softmax]\n[cost]\n");
  CHECK(find_heads(classifier) == (std::vector<int>{1, 3}));
  const Network plain = network(conv(6) + conv(2));
  CHECK(find_heads(plain) == (std::vector<int>{1}));
}
