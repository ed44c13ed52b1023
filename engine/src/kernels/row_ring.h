// Which rows of a map are in memory: all of them, or as many as a ring has places.
#pragma once

namespace mpe {

struct RowRing {
  int first = 0;  // the row that lies at the beginning first; none before it is there
  int count = 0;  // places

  // Of row y in its channel's plane.
  int place_of(int y) const {
    const int place = y - first;
    return place < count ? place
                         : place % count;  // a division takes as long as copying a short row
  }
  // Places from that of row y to the end of the ring.
  int together(int y) const { return count - place_of(y); }
};

}  // namespace mpe
