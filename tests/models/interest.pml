/* News of nodes, flooded through a graph with a loop: who is linked with whom, and who wants a topic, as docs/CLUSTER.md
   has it. Three nodes in a triangle, or four in a ring.

   Each node alone makes news of itself: what changed, under the number after the last. Whoever takes news passes it on
   to all other neighbours. As a link comes up each end says a Digest of what it knows; only when the other's is
   answered with all that is newer here is the other a neighbour, and told of changes. A link is dead before its ends
   notice, each for itself: until then they hear what was on its way, and speak into nothing. Who crashed has forgotten
   everything but the number of its lives.

   Judged whenever it is quiet (nothing on its way, no end that has not noticed): whoever can be reached is known to
   everybody exactly as it is; so no interest outlives its subscriber, and none is missed. And a message of each node,
   passed on by each as it knows the graph, comes to everybody who wants it, to nobody twice. A change of something
   that is not known is an assertion: the implementation calls it a link error. Not judged: that it becomes quiet; it
   must, for every word that is heard is followed by words only where something newer was learnt.

   Bounds, by -D: NODES (3 or 4), CHANGES of what the first ORIGINS nodes want (the topic is wanted at the first when it
   begins), LOSSES of links, CRASHES. Explored, without an error:

     NODES  ORIGINS  CHANGES  LOSSES  CRASHES     states
         3        1        1       1        0     50,165
         3        2        2       1        0  1,556,411
         3        1        0       0        1    364,939
         3        1        1       0        1  4,725,462
         4        1        2       1        0  2,502,331

   Broken on purpose, by -D; each must fail:
     STALE          news is taken though it is older than what is known
     NO_ANSWER      a Digest is not answered
     EARLY_NEWS     changes are told before the Digest is answered, and applied to whatever is known
     NO_WITHDRAWAL  it is not told that a topic is wanted no more
     SAME_LIFE      who crashed begins to count from 1 again
     ALL_LINKS      a message goes to all neighbours but the one from which it came, not along the tree
     REACHED        it is claimed that it is never quiet after all faults with all links up and something wanted */

#ifndef NODES
#define NODES 3
#endif
#ifndef ORIGINS
#define ORIGINS 1
#endif
#ifndef CHANGES
#define CHANGES 1
#endif
#ifndef LOSSES
#define LOSSES 1
#endif
#ifndef CRASHES
#define CRASHES 0
#endif
#define ON_WAY 7        /* words in one direction of a link: more is an error of the model */
#define NUMBERS 32      /* of one life */
#define FIRST 36        /* version with which all begin: in the first life, after some news */
#define NOBODY 255

#if NODES == 3
#define are_wired(one, other) (one != other)
#else
#define are_wired(one, other) ((one + other) % 2 == 1)
#endif

mtype = { digest, all, wanted, unwanted, is_linked, is_unlinked };  /* words; the last four are changes */

/* What one node knows of another, or is itself. version: life * NUMBERS + number, 0 for never heard of. neighbours: a
   mask; its own are those whose Digest is answered. */
typedef Known {
    byte version;
    bool wants;
    byte neighbours
}

typedef Row { Known about[NODES] }
typedef Ends { bool with[NODES] }

Row node[NODES];
Ends is_up[NODES];    /* as this end sees it */
Ends is_cut[NODES];   /* dead, and this end has not noticed */
byte changes, losses, crashes;

/* From each to each: a Digest with the version of each node; or news: origin, version, what, 0. What: for `all` whether
   it wants and its neighbours in one, for a link the other end. */
chan on_way[NODES * NODES] = [ON_WAY] of { mtype, byte, byte, byte, byte };
#define to(one, other) on_way[(one) * NODES + (other)]
#define bit_of(n) (1 << (n))
#define own(n) node[n].about[n]

/* Used within a step, 0 between steps. */
mtype word;
byte a, b, c, d, i, j, k, sum;
byte before[NODES], hops[NODES], copies[NODES], turn[NODES], needs[NODES];
bool is_new;

/* ---- news -------------------------------------------------------------------------------------------------------- */

inline say(speaker, listener, what, f1, f2, f3, f4) {
    if
    :: !is_cut[speaker].with[listener] ->
        assert(nfull(to(speaker, listener)));
        to(speaker, listener)!what, f1, f2, f3, f4
    :: else
    fi
}

inline say_all(me, other, origin) {
    say(me, other, all, origin, node[me].about[origin].version,
        node[me].about[origin].wants + 2 * node[me].about[origin].neighbours, 0)
}

#ifdef EARLY_NEWS
#define is_told(me, other) is_up[me].with[other]
#else
#define is_told(me, other) (own(me).neighbours & bit_of(other))
#endif

/* To all neighbours but one. */
inline pass_on(teller, but, news, of_whom, of_version, how) {
    for (k : 0 .. NODES - 1) {
        if
        :: k != but && k != teller && is_told(teller, k) -> say(teller, k, news, of_whom, of_version, how, 0)
        :: else
        fi
    }
}

inline change_self(me, what, other) {
    own(me).version++;
    pass_on(me, NOBODY, what, me, own(me).version, other)
}

inline say_digest(me, other) {
#if NODES == 3
    say(me, other, digest, node[me].about[0].version, node[me].about[1].version, node[me].about[2].version, 0)
#else
    say(me, other, digest, node[me].about[0].version, node[me].about[1].version, node[me].about[2].version,
        node[me].about[3].version)
#endif
}

#define theirs(n) (n == 0 -> a : (n == 1 -> b : (n == 2 -> c : d)))

inline hear_digest(me, from) {
    assert(theirs(me) <= own(me).version);
    own(me).neighbours = own(me).neighbours | bit_of(from);
    own(me).version++;
    pass_on(me, from, is_linked, me, own(me).version, from);
#ifndef NO_ANSWER
    for (j : 0 .. NODES - 1) {
        if
        :: node[me].about[j].version > theirs(j) -> say_all(me, from, j)
        :: else
        fi
    }
#endif
}

inline apply(fact) {
    fact.version = b;
    if
    :: word == all -> fact.wants = c % 2; fact.neighbours = c / 2
    :: word == wanted -> fact.wants = true
    :: word == unwanted -> fact.wants = false
    :: word == is_linked -> fact.neighbours = fact.neighbours | bit_of(c)
    :: word == is_unlinked -> fact.neighbours = fact.neighbours & ~bit_of(c)
    fi
}

inline hear_news(me, from) {
    is_new = b > node[me].about[a].version;
    if
    :: a == me -> assert(!is_new)
#ifdef STALE
    :: a != me && !is_new -> apply(node[me].about[a])
#endif
    :: a != me && is_new ->
#ifndef EARLY_NEWS
        assert(word == all || b == node[me].about[a].version + 1);
#endif
        apply(node[me].about[a]);
        pass_on(me, from, word, a, b, c)
    :: else
    fi
}

inline hear(me, from) {
    if
    :: word == digest -> hear_digest(me, from)
    :: else -> hear_news(me, from)
    fi
}

/* ---- links ------------------------------------------------------------------------------------------------------- */

inline forget(speaker, listener) {
    do
    :: nempty(to(speaker, listener)) -> to(speaker, listener)?word, a, b, c, d
    :: empty(to(speaker, listener)) -> break
    od
}

/* An end that is not up will hear nothing of it. */
inline cut(end, far) {
    if
    :: is_up[end].with[far] -> is_cut[end].with[far] = true
    :: else -> forget(far, end)
    fi
}

inline notice(me, other) {
    is_up[me].with[other] = false;
    is_cut[me].with[other] = false;
    forget(other, me);
    if
    :: own(me).neighbours & bit_of(other) ->
        own(me).neighbours = own(me).neighbours & ~bit_of(other);
        change_self(me, is_unlinked, other)
    :: else
    fi
}

inline crash(me) {
    for (i : 0 .. NODES - 1) {
        if
        :: i != me && are_wired(me, i) ->
            is_up[me].with[i] = false;
            is_cut[me].with[i] = false;
            forget(i, me);
            cut(i, me)
        :: else
        fi;
        if
        :: i != me -> node[me].about[i].version = 0; node[me].about[i].wants = false; node[me].about[i].neighbours = 0
        :: else
        fi
    }
#ifdef SAME_LIFE
    own(me).version = own(me).version / NUMBERS * NUMBERS + 1;
#else
    own(me).version = (own(me).version / NUMBERS + 1) * NUMBERS + 1;
#endif
    own(me).wants = false;
    own(me).neighbours = 0
}

/* ---- what must hold ---------------------------------------------------------------------------------------------- */

/* sum: how much is not quiet. */
inline unrest() {
    sum = 0;
    for (i : 0 .. NODES - 1) {
        for (j : 0 .. NODES - 1) {
            if
            :: i != j ->
                sum = sum + len(to(i, j)) + is_cut[i].with[j] + (is_up[i].with[j] != is_up[j].with[i])
            :: else
            fi
        }
    }
}

#define is_claimed(me, one, other) (node[me].about[one].neighbours & bit_of(other))
#define are_linked(me, one, other) (is_claimed(me, one, other) && is_claimed(me, other, one))

/* The shortest tree of an origin, as a node knows the graph; of several as near the first is before a node. */
inline find_tree(me, origin) {
    for (i : 0 .. NODES - 1) { hops[i] = NOBODY; before[i] = NOBODY }
    hops[origin] = 0;
    for (k : 1 .. NODES - 1) {
        for (i : 0 .. NODES - 1) {
            for (j : 0 .. NODES - 1) {
                if
                :: hops[i] == k - 1 && hops[j] == NOBODY && are_linked(me, i, j) -> hops[j] = k; before[j] = i
                :: else
                fi
            }
        }
    }
}

/* Who is told by a node: those below it behind which somebody wants it. */
inline spread(me, origin) {
    find_tree(me, origin);
    for (i : 0 .. NODES - 1) { needs[i] = 0 }
    for (i : 0 .. NODES - 1) {
        if
#ifdef ALL_LINKS
        :: i != me && i != origin && (own(me).neighbours & bit_of(i)) -> needs[i] = 1
#else
        :: i != me && node[me].about[i].wants ->
            j = i;
            do
            :: before[j] != NOBODY && before[j] != me -> j = before[j]
            :: else -> break
            od;
            if
            :: before[j] == me -> needs[j] = 1
            :: else
            fi
#endif
        :: else
        fi
    }
    for (i : 0 .. NODES - 1) { copies[i] = copies[i] + needs[i]; turn[i] = turn[i] | (needs[i] && copies[i] == 1) }
}

inline judge_messages(origin) {
    for (i : 0 .. NODES - 1) { copies[i] = 0; turn[i] = 0 }
    turn[origin] = 1;
    sum = 1;
    do
    :: sum ->   /* somebody has it, and has not passed it on */
        d = 0;
        do
        :: !turn[d] -> d++
        :: else -> break
        od;
        turn[d] = 0;
        spread(d, origin);
        sum = 0;
        for (i : 0 .. NODES - 1) { sum = sum + turn[i] }
    :: else -> break
    od;
    find_tree(origin, origin);
    for (i : 0 .. NODES - 1) {
        assert(copies[i] <= 1);
        assert(i == origin || copies[i] == 1 || !own(i).wants || hops[i] == NOBODY)
    }
}

/* What is known in one piece of the graph is the same as what is; pieces are found by the links that are up. */
inline judge_news(me) {
    sum = bit_of(me);
    for (k : 1 .. NODES - 1) {
        for (i : 0 .. NODES - 1) {
            for (j : 0 .. NODES - 1) {
                if
                :: i != j && (sum & bit_of(i)) && is_up[i].with[j] -> sum = sum | bit_of(j)
                :: else
                fi
            }
        }
    }
    for (i : 0 .. NODES - 1) {
        if
        :: sum & bit_of(i) ->
            assert(node[me].about[i].version == own(i).version);
            assert(node[me].about[i].wants == own(i).wants);
            assert(node[me].about[i].neighbours == own(i).neighbours)
        :: else
        fi;
        assert(i == me || is_up[me].with[i] == ((own(me).neighbours & bit_of(i)) != 0))
    }
}

inline reset() {
    word = 0; a = 0; b = 0; c = 0; d = 0; i = 0; j = 0; k = 0; sum = 0; is_new = false;
    for (i : 0 .. NODES - 1) { before[i] = 0; hops[i] = 0; copies[i] = 0; turn[i] = 0; needs[i] = 0 }
    i = 0
}

inline judge() {
    unrest();
    if
    :: sum == 0 ->
        for (c : 0 .. NODES - 1) { judge_news(c) }
        for (c : 0 .. NODES - 1) { judge_messages(c) }
#ifdef REACHED
        sum = 0;
        for (i : 0 .. NODES - 1) {
            for (j : 0 .. NODES - 1) { sum = sum + (i != j && are_wired(i, j) && !is_up[i].with[j]) }
        }
        assert(!(sum == 0 && own(0).wants && changes == CHANGES && losses == LOSSES && crashes == CRASHES))
#endif
    :: else
    fi;
    reset()
}

/* ---- who does it ------------------------------------------------------------------------------------------------- */

#define is_heard(me, other) (is_up[me].with[other] && !is_cut[me].with[other])
#define is_whole(me, other) (is_heard(me, other) && is_heard(other, me))

/* One end of one wire. */
proctype End(byte me; byte other) {
end:
    do
    :: d_step {
        is_up[me].with[other] && nempty(to(other, me)) ->
        to(other, me)?word, a, b, c, d; hear(me, other); judge() }
    :: d_step { is_cut[me].with[other] -> notice(me, other); judge() }
    :: d_step {
        !is_up[me].with[other] && !is_cut[other].with[me] ->
        is_up[me].with[other] = true; say_digest(me, other); judge() }
    :: d_step { me < other && losses < LOSSES && is_whole(me, other) ->
        losses++; cut(me, other); cut(other, me); judge() }
    od
}

proctype Life(byte me) {
end:
    do
    :: d_step { me < ORIGINS && changes < CHANGES && !own(me).wants ->
        changes++; own(me).wants = true; change_self(me, wanted, 0); judge() }
    :: d_step { me < ORIGINS && changes < CHANGES && own(me).wants ->
        changes++; own(me).wants = false;
#ifndef NO_WITHDRAWAL
        change_self(me, unwanted, 0);
#endif
        judge() }
    :: d_step { crashes < CRASHES -> crashes++; crash(me); judge() }
    od
}

init {
    d_step {
        for (i : 0 .. NODES - 1) {
            for (j : 0 .. NODES - 1) {
                node[i].about[j].version = FIRST;
                is_up[i].with[j] = (i != j && are_wired(i, j));
                for (k : 0 .. NODES - 1) {
                    node[i].about[j].neighbours = node[i].about[j].neighbours | (j != k && are_wired(j, k) -> bit_of(k) : 0)
                }
            }
        }
        own(0).wants = true;
        for (i : 1 .. NODES - 1) { node[i].about[0].wants = true }
        reset()
    }
    atomic {
        for (i : 0 .. NODES - 1) {
            run Life(i);
            for (j : 0 .. NODES - 1) {
                if
                :: i != j && are_wired(i, j) -> run End(i, j)
                :: else
                fi
            }
        }
        i = 0; j = 0
    }
}
