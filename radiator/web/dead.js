// Why a message is a dead letter, by the reasons of its header dead-letter-reason and of the journal.

export const WHY_DEAD = {
  rejected: "its consumer has rejected it",
  redeliveries: "it had come back too often",
  expired: "its time to live was over",
  overflow: "the queue was full",
  unrouted: "the exchange for dead letters routed it nowhere",
  cycle: "it came back in a cycle of exchanges for dead letters",
};
