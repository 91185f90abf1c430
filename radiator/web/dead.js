// Why a message is a dead letter, by the reasons of its header dead-letter-reason and of the journal.

export const WHY_DEAD = {
  rejected: "its consumer rejected it",
  redeliveries: "it was redelivered too often",
  expired: "its time to live had ended",
  overflow: "the queue was full",
  unrouted: "the dead-letter exchange routed it to no queue",
  cycle: "it came back in a cycle of dead-letter exchanges",
};
