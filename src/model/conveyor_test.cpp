// Conveyor: items are processed in any order and finished in order, also when steps fail or throw.
#include "model/conveyor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <new>

#include "base/errors.h"

namespace tern {
namespace {

TEST(Conveyor, EverythingIsWorkedOnceAndFinishedInOrder) {
  for (const int threads : {1, 2, 5})
    for (const std::int64_t places : {1, 2, 3, 64}) {
      const Threads pool(threads);
      Conveyor conveyor(pool, places);
      for (const std::int64_t items : {0, 1, 2, 7, 500}) {
        std::vector<std::int64_t> held(static_cast<std::size_t>(places), -1), finished;
        std::atomic<int> finishing = 0;
        const Status status = conveyor.run(
            items,
            [&](std::int64_t item, std::int64_t place) -> Status {
              EXPECT_EQ(held[static_cast<std::size_t>(place)], -1) << "the place of another";
              held[static_cast<std::size_t>(place)] = item;
              return {};
            },
            [&](std::int64_t item, std::int64_t place) -> Status {
              EXPECT_EQ(finishing++, 0);
              EXPECT_EQ(std::exchange(held[static_cast<std::size_t>(place)], -1), item);
              finished.push_back(item);
              --finishing;
              return {};
            });
        EXPECT_TRUE(status.ok());
        ASSERT_EQ(finished.size(), static_cast<std::size_t>(items));
        for (std::size_t i = 0; i < finished.size(); ++i) ASSERT_EQ(finished[i], static_cast<std::int64_t>(i));
      }
    }
}

TEST(Conveyor, TheFirstFailureInOrderEndsIt) {
  const Threads pool(4);
  Conveyor conveyor(pool, 8);
  for (int round = 0; round < 50; ++round) {
    std::int64_t last = -1;
    const auto finish = [&](std::int64_t item, std::int64_t) -> Status {
      last = item;
      return {};
    };
    const Status worked = conveyor.run(
        100,
        [](std::int64_t item, std::int64_t) -> Status {
          if (item >= 20 && item % 3 == 0) return error(Code::io_error, "test", "item {}", item);
          return {};
        },
        finish);
    ASSERT_FALSE(worked.ok());
    EXPECT_EQ(worked.error().message, "item 21") << "whoever was first in time";
    EXPECT_EQ(last, 20);
    const auto work = [](std::int64_t, std::int64_t) { return Status(); };
    const Status finished = conveyor.run(100, work, [](std::int64_t item, std::int64_t) -> Status {
      EXPECT_LE(item, 30);
      if (item == 30) throw std::bad_alloc();
      return {};
    });
    EXPECT_EQ(finished.code(), Code::memory_allocation);
    EXPECT_TRUE(conveyor.run(3, work, finish).ok()) << "it is as new";
  }
}

TEST(Conveyor, TasksOfOthersAreSpreadAmongThePieces) {
  const Threads pool(3);
  Conveyor conveyor(pool, 8);
  for (const std::int64_t pieces : {0, 1, 40})
    for (const std::int64_t serial : {0, 1, 20})
      for (const std::int64_t parallel : {0, 7}) {
        std::vector<std::atomic<int>> fetched(40), stepped(40), uploaded(7);
        std::int64_t next = 0, copied = 0, copied_before_half = 0;
        const auto at = [](auto& of, std::int64_t i) -> auto& { return of[static_cast<std::size_t>(i)]; };
        const Status status = conveyor.run({.pieces = pieces,
                                            .fetch = [&](std::int64_t piece) { ++at(fetched, piece); },
                                            .step = [&](std::int64_t piece, std::int64_t) -> Status {
                                              EXPECT_EQ(at(fetched, piece), 1);
                                              ++at(stepped, piece);
                                              return {};
                                            },
                                            .sink = [&](std::int64_t piece, std::int64_t) -> Status {
                                              EXPECT_EQ(piece, next++);
                                              EXPECT_EQ(at(stepped, piece), 1);
                                              return {};
                                            },
                                            .serial_tasks = serial,
                                            .serial_task = [&]() -> Status {
                                              ++copied;
                                              if (2 * next <= pieces) ++copied_before_half;
                                              return {};
                                            },
                                            .parallel_tasks = parallel,
                                            .parallel_task = [&](std::int64_t task) { ++at(uploaded, task); }});
        EXPECT_TRUE(status.ok());
        EXPECT_EQ(next, pieces);
        EXPECT_EQ(copied, serial);
        if (pieces == 40 && serial == 20) {
          EXPECT_NEAR(static_cast<double>(copied_before_half), 10, 2);
        }
        for (std::int64_t task = 0; task < parallel; ++task) EXPECT_EQ(at(uploaded, task), 1);
      }
}

}  // namespace
}  // namespace tern
