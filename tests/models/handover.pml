/* The hand-over of messages between two nodes, both directions at once, as docs/CLUSTER.md has it.

   Each node is sender and receiver over the same connection, and both share its breaks and the crashes. An item may
   come back (A -> B -> A); each direction has sequences and epochs of its own. What a step changes is in memory and in
   the open batch; a commit makes all of it durable at once, and only then are the words said that were held for it. A
   crash takes memory back to what is on the disk.

   A connection is dead before its ends notice, each for itself: until then they go on speaking into it. What was on its
   way is lost, or late: heard at any time after, as if it belonged to the connection that there is then. That is more
   than the network and the nodes' own bookkeeping of connections allow: here nothing but the epochs fences it.

   Who has no such queue any more does not take what is offered, nor what comes behind it, and says so; then the sender
   begins a new epoch on the same connection (REFUSALS, of both nodes together).

   Judged after every step: at most one node may give an item to a consumer, or has had it acked; somebody has it on the
   disk. Where a word arrives, what the implementation would call a link error is an assertion. Not judged: that
   something happens at all (REACHED shows that it can).

   Not in it: that one batch is on its way to the disk while the next fills (here a commit takes no time), and bounds of
   hops, credit and the window, which are for the simulation.

   Bounds, by -D: ITEMS (the first begins at node 0, others at either), CRASHES, BREAKS and REFUSALS of both nodes
   together, SEQUENCES of one direction. Explored, without an error:

     ITEMS  SEQUENCES  CRASHES  BREAKS      states
         1          1        1       1     453,810
         1          2        1       1   1,328,576
         1          2        2       1  26,032,365
         2          1        1       0     123,516
         2          1        1       1   4,842,443
         2          2        1       0   1,494,630
         2          2        0       1   1,632,208
     with REFUSALS=1:
         1          2        1       0      86,120
         1          2        1       1   4,534,436
         2          2        0       1   7,400,899

   Broken on purpose, by -D; each must fail:
     GIVE_BACK       what is in doubt is ready again as soon as the link is lost
     NO_FENCE        a Transfer of an earlier epoch is accepted
     TWO_COMMITS     the item and the last sequence accepted are committed one after the other
     EARLY_DELETE    an item is deleted when its Transfer is said, not when it is Taken
     EARLY_TRANSFER  a Transfer is said before the doubt is on the disk
     EARLY_TAKEN     Taken is said before the item is on the disk
     EARLY_WELCOME   Welcome is said before the epoch is on the disk
     UNTAKEN_COUNTS  what is not stored is counted among what came
     REACHED         it is claimed that all items are never acked after every crash, the first having come back once */

#ifndef ITEMS
#define ITEMS 2
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef BREAKS
#define BREAKS 1
#endif
#ifndef REFUSALS
#define REFUSALS 0
#endif
#ifndef SEQUENCES
#define SEQUENCES 2
#endif
#define WINDOW 2     /* in doubt in one direction */
#define ON_WAY 4     /* words in one direction of the connection */
#define AT_COMMIT 3  /* words that one commit may say */
#define LATE 2       /* words in one direction of dead connections; more of them are lost */
#define NOTHING 255

mtype = { hello, welcome, transfer, taken, untaken };  /* words */
mtype = { absent, storing, ready, acked };    /* what an item is at a node, beside being in doubt there */

/* What a batch makes durable as a whole. doubt[k]: the item offered under the sequence out_taken + 1 + k. */
typedef Store {
    mtype state[ITEMS];
    byte doubt[WINDOW];
    byte out_epoch;
    byte out_taken;
    byte out_offered;
    byte in_epoch;
    byte in_last
}

Store disk[2], memory[2];
bool is_linked[2];  /* volatile: this connection's Welcome has come */
byte said[2];       /* volatile: the last sequence whose Transfer was said */
bool is_open[2];    /* there is something in the open batch */
bool is_cut[2];     /* the connection is dead, and this end has not noticed */
bool is_deaf[2];    /* volatile: Untaken was said, and no Hello has come since */
byte crashes, breaks, refusals;
#ifdef TWO_COMMITS
bool is_half[2];    /* the first of the two is done */
#endif
#ifdef REACHED
bool came_back;
#endif

/* To each node: word, epoch, sequence, item. */
chan on_way[2] = [ON_WAY] of { mtype, byte, byte, byte };
chan late[2] = [LATE] of { mtype, byte, byte, byte };

/* Used within a step, 0 between steps. */
byte i, k, n, givers, holders;
mtype word;
byte epoch, sequence, item, pick;

/* ---- what is said ------------------------------------------------------------------------------------------------ */

inline say(me, what, of_epoch, number, which) {
    if
    :: !is_cut[me] -> on_way[1 - me]!what, of_epoch, number, which
    :: is_cut[me] && nfull(late[1 - me]) -> late[1 - me]!what, of_epoch, number, which
    :: is_cut[me] && full(late[1 - me]) -> skip
    fi
}

inline say_transfers(me) {
    do
    :: is_linked[me] && said[me] < memory[me].out_offered ->
        said[me]++;
        say(me, transfer, memory[me].out_epoch, said[me], memory[me].doubt[said[me] - memory[me].out_taken - 1]);
#ifdef EARLY_DELETE
        settle(me, said[me])
#endif
    :: else -> break
    od
}

/* The words that the batch holds. */
inline say_held(me) {
    if
#ifndef EARLY_WELCOME
    :: memory[me].in_epoch != disk[me].in_epoch ->
        say(me, welcome, memory[me].in_epoch, memory[me].in_last, NOTHING)
#endif
#ifndef EARLY_TAKEN
    :: !is_deaf[me] && memory[me].in_epoch == disk[me].in_epoch && memory[me].in_last != disk[me].in_last ->
        say(me, taken, memory[me].in_epoch, memory[me].in_last, NOTHING)
#endif
    :: else
    fi;
    if
    :: memory[me].out_epoch != disk[me].out_epoch -> say(me, hello, memory[me].out_epoch, 0, NOTHING)
    :: else
    fi;
#ifndef EARLY_TRANSFER
    say_transfers(me)
#endif
}

/* ---- the store --------------------------------------------------------------------------------------------------- */

inline copy_all_but_last(target, source) {
    for (i : 0 .. ITEMS - 1) { target.state[i] = source.state[i] }
    for (k : 0 .. WINDOW - 1) { target.doubt[k] = source.doubt[k] }
    target.out_epoch = source.out_epoch;
    target.out_taken = source.out_taken;
    target.out_offered = source.out_offered;
    target.in_epoch = source.in_epoch
}

inline commit(me) {
#ifdef TWO_COMMITS
    if
    :: !is_half[me] -> say_held(me)
    :: else
    fi;
#else
    say_held(me);
#endif
    for (i : 0 .. ITEMS - 1) {
        if
        :: memory[me].state[i] == storing -> memory[me].state[i] = ready
        :: else
        fi
    }
    copy_all_but_last(disk[me], memory[me]);
#ifdef TWO_COMMITS
    if
    :: is_half[me] || memory[me].in_last == disk[me].in_last ->
        disk[me].in_last = memory[me].in_last; is_half[me] = false; is_open[me] = false
    :: else -> is_half[me] = true
    fi
#else
    disk[me].in_last = memory[me].in_last;
    is_open[me] = false
#endif
}

/* The first in doubt is so no more. */
inline shift(me) {
    for (k : 0 .. WINDOW - 2) { memory[me].doubt[k] = memory[me].doubt[k + 1] }
    memory[me].doubt[WINDOW - 1] = NOTHING
}

/* Everything up to `last` is the other's. */
inline settle(me, last) {
    do
    :: memory[me].out_taken < last -> memory[me].out_taken++; shift(me)
    :: else -> break
    od
}

/* Everything that is still in doubt is ours. */
inline take_back(me) {
    do
    :: memory[me].doubt[0] != NOTHING ->
        assert(memory[me].state[memory[me].doubt[0]] == absent);
        memory[me].state[memory[me].doubt[0]] = ready;
        shift(me)
    :: else -> break
    od;
    memory[me].out_offered = memory[me].out_taken
}

#ifdef NO_FENCE
#define is_current(me) true
#else
#define is_current(me) (epoch == memory[me].in_epoch)
#endif

/* ---- what is heard ----------------------------------------------------------------------------------------------- */

inline hear(me) {
    if
    :: word == hello && epoch > memory[me].in_epoch ->
        memory[me].in_epoch = epoch;
        is_deaf[me] = false;
        is_open[me] = true;
#ifdef EARLY_WELCOME
        say(me, welcome, epoch, memory[me].in_last, NOTHING)
#endif
    :: word == welcome && !is_linked[me] && epoch == memory[me].out_epoch ->
        assert(memory[me].out_taken <= sequence && sequence <= memory[me].out_offered);
        settle(me, sequence);
        take_back(me);
        said[me] = sequence;
        is_linked[me] = true;
        is_open[me] = true
    :: word == transfer && !is_deaf[me] && is_current(me) && sequence == memory[me].in_last + 1 ->
        assert(memory[me].state[item] == absent);
        memory[me].state[item] = storing;
        memory[me].in_last = sequence;
        is_open[me] = true;
#ifdef REACHED
        came_back = came_back || (me == 0 && item == 0);
#endif
#ifdef EARLY_TAKEN
        say(me, taken, epoch, sequence, NOTHING)
#endif
    :: word == taken && sequence > memory[me].out_taken ->
        assert(sequence <= memory[me].out_offered);
        settle(me, sequence);
        is_open[me] = true
    :: word == untaken && is_linked[me] && epoch == memory[me].out_epoch ->
        memory[me].out_epoch++;
        is_linked[me] = false;
        is_open[me] = true
    :: else /* of another epoch, or nothing new */
    fi
}

/* ---- faults ------------------------------------------------------------------------------------------------------ */

/* A new connection begins with a new epoch, and nobody is given anything over it before it is welcomed. */
inline connect(me) {
    memory[me].out_epoch++;
    is_linked[me] = false;
    is_deaf[me] = false;
    is_cut[me] = false;
    said[me] = 0;
    is_open[me] = true
}

/* Both ends will notice. What was on its way is late, or lost where there is no room. */
inline cut() {
    for (n : 0 .. 1) {
        is_cut[n] = true;
        do
        :: nempty(on_way[n]) ->
            on_way[n]?word, epoch, sequence, item;
            if
            :: nfull(late[n]) -> late[n]!word, epoch, sequence, item
            :: full(late[n]) -> skip
            fi
        :: empty(on_way[n]) -> break
        od
    }
}

inline crash(me) {
    copy_all_but_last(memory[me], disk[me]);
    memory[me].in_last = disk[me].in_last;
#ifdef TWO_COMMITS
    is_half[me] = false;
#endif
    cut();
    connect(me)
}

/* ---- what must hold ---------------------------------------------------------------------------------------------- */

inline judge() {
    for (i : 0 .. ITEMS - 1) {
        givers = 0; holders = 0;
        for (n : 0 .. 1) {
            if
            :: memory[n].state[i] == ready || memory[n].state[i] == acked -> givers++
            :: else
            fi;
            if
            :: disk[n].state[i] == ready || disk[n].state[i] == acked -> holders++
            :: else
            fi;
            for (k : 0 .. WINDOW - 1) {
                if
                :: disk[n].doubt[k] == i -> holders++
                :: else
                fi
            }
        }
        assert(givers <= 1);   /* nobody gets it twice */
        assert(holders >= 1)   /* it is not lost */
    }
#ifdef REACHED
    n = 0;
    for (i : 0 .. ITEMS - 1) {
        if
        :: disk[0].state[i] == acked || disk[1].state[i] == acked -> n++
        :: else
        fi
    }
    assert(!(n == ITEMS && came_back && crashes == CRASHES));
#endif
    i = 0; k = 0; n = 0; givers = 0; holders = 0; word = 0; epoch = 0; sequence = 0; item = 0; pick = 0
}

#define has_room(me) (memory[me].out_offered < memory[me].out_taken + WINDOW)

/* ---- who does it ------------------------------------------------------------------------------------------------- */

inline offer(me) {
    memory[me].state[pick] = absent;
    memory[me].doubt[memory[me].out_offered - memory[me].out_taken] = pick;
    memory[me].out_offered++;
    is_open[me] = true;
#ifdef EARLY_TRANSFER
    say_transfers(me)
#endif
}

proctype Node(bit me) {
    do
    :: d_step { on_way[me]?word, epoch, sequence, item -> hear(me); judge() }
    :: d_step { late[me]?word, epoch, sequence, item -> hear(me); judge() }
    :: late[me]?_, _, _, _ /* it never came */
    :: d_step { refusals < REFUSALS && !is_deaf[me] && nfull(on_way[1 - me]) &&
        on_way[me]?[transfer, eval(memory[me].in_epoch), eval(memory[me].in_last + 1), _] ->
        on_way[me]?word, epoch, sequence, item;
        refusals++;
        is_deaf[me] = true;
#ifdef UNTAKEN_COUNTS
        memory[me].in_last = sequence;
        is_open[me] = true;
#endif
        say(me, untaken, epoch, 0, NOTHING);
        judge() }
    :: d_step { is_open[me] && len(on_way[1 - me]) <= ON_WAY - AT_COMMIT -> commit(me); judge() }
    :: d_step {
        is_cut[me] ->
#ifdef GIVE_BACK
        take_back(me);
#endif
        connect(me);
        judge() }
    :: atomic {
        is_linked[me] && memory[me].out_offered < SEQUENCES && has_room(me) ->
        select(pick : 0 .. ITEMS - 1);
        d_step {
            if
            :: memory[me].state[pick] == ready -> offer(me)
            :: else
            fi;
            judge() } }
    :: atomic { /* a local consumer. Acked while it is not yet committed is judged like ready */
        !is_open[me] ->
        select(pick : 0 .. ITEMS - 1);
        d_step {
            if
            :: memory[me].state[pick] == ready -> memory[me].state[pick] = acked; disk[me].state[pick] = acked
            :: else
            fi;
            judge() } }
    od
}

proctype Faults() {
    do
    :: d_step { crashes < CRASHES -> crashes++; crash(0); judge() }
    :: d_step { crashes < CRASHES -> crashes++; crash(1); judge() }
    :: d_step { breaks < BREAKS && !is_cut[0] && !is_cut[1] -> breaks++; cut(); judge() }
    od
}

init {
    byte one = 0;
    atomic {
        for (n : 0 .. 1) {
            for (k : 0 .. WINDOW - 1) { memory[n].doubt[k] = NOTHING }
            for (i : 0 .. ITEMS - 1) { memory[n].state[i] = absent }
        }
        memory[0].state[0] = ready;
        for (one : 1 .. ITEMS - 1) {
            if
            :: memory[0].state[one] = ready
            :: memory[1].state[one] = ready
            fi
        }
        one = 0;
        for (n : 0 .. 1) { copy_all_but_last(disk[n], memory[n]); connect(n) }
        judge();
        run Node(0); run Node(1); run Faults()
    }
}
