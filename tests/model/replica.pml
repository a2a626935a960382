/* The protocol of replicated parameter servers: src/dist/ps_view.h (who is primary) and src/dist/ps_replica.h (what the
 * members do with it), checked by spin over all orders of events up to the limits below.
 *
 * Two members, an arbiter, and workers that want updates. Whatever is on its way may be delayed; any member, and the
 * arbiter, may be taken for silent at any time, whether it is or not; members die and start again, connections break, and
 * the arbiter dies and starts again with what it has on disk.
 *
 * What is claimed: an answer is only ever given by who has every update that was answered before, and none else (the
 * assertions in `answer`). A second primary that answered, or a backup that took over without an update, would break it. When all lives in the view
 * have ended the count begins anew: the workers go back to a checkpoint.
 *
 * check.py compiles it once and runs it with several limits, which are read from the environment when the checker begins:
 * MODEL_PAIR (1: it begins with a primary and a backup that has everything, 0: with two that hold nothing), MODEL_DEATHS,
 * MODEL_BREAKS, MODEL_UPDATES, MODEL_TERMS, MODEL_SHARED (1: records lie in memory of the backup as soon as they are sent, need no
 * confirmation once it has everything, and outlive who sent them). The checker says which of the events that matter it has come to (REACHED), and must
 * find a fault in a protocol that lacks a rule (MODEL_BROKEN). */

c_code {
  \#include <stdio.h>
  \#include <stdlib.h>
  static int pair, max_deaths, max_breaks, max_updates, max_terms, shared, broken;
  static int setting(const char *name) { return getenv(name) ? atoi(getenv(name)) : 0; }
  __attribute__((constructor)) static void read_settings(void) {
    pair = setting("MODEL_PAIR");
    max_deaths = setting("MODEL_DEATHS");
    max_breaks = setting("MODEL_BREAKS");
    max_updates = setting("MODEL_UPDATES");
    max_terms = setting("MODEL_TERMS");
    shared = setting("MODEL_SHARED");
    broken = setting("MODEL_BROKEN");
  }
  static void event(int which, const char *what) {
    static unsigned all;
    if (all >> which & 1) return;
    all |= 1u << which;
    printf("reached: %s\n", what);
  }
};

#define NONE 2

mtype = { BLANK, PRIMARY, BACKUP };

/* members */
mtype role[2];
byte life[2], term[2];
byte has[2], log[2]; /* how many updates it has, and which: the last is the lowest digit */
byte link[2];   /* of a primary: the life its records go to; 0: none */
byte via[2];    /* the same: the connection */
byte sent[2], acked[2];
byte awaits[2]; /* of a primary: the life without which it answers nothing; 0: none */
byte since[2];
bool cut[2], pending[2], left_out[2];
byte source[2]; /* of a backup: the connection that fills it; 0: it has ended */
bool named[2];
byte target[2]; /* of a primary: life to fill */

/* Records and confirmations on their way to a member: over which connection; the life that is meant, of the first record of a
 * connection, which says all that its sender holds, otherwise 0; how many updates the receiver then has, and which. What is on
 * its way may still come when its sender has given the connection up. */
chan records[2] = [2] of { byte, byte, byte, byte };
chan acks[2] = [2] of { byte, bool }; /* taken */

/* the arbiter: the view on disk, and what it has heard */
bool v_anew;
byte v_term, v_primary = NONE, v_life, v_backup = NONE, v_backup_life;
bool heard[2];
mtype s_role[2];
byte s_life[2], s_term[2], s_awaits[2];
bool s_cut[2];
/* orders under way, and answers to them */
chan orders[2] = [1] of { byte, byte, byte, byte, byte, byte, bool };
chan answers[2] = [1] of { byte, byte, byte, bool, mtype };

byte lives = 2, answered, truth, deaths, breaks, made; /* truth: the updates that were answered */
#define POWER(n) (n == 0 -> 1 : (n == 1 -> 4 : (n == 2 -> 16 : 64)))

/* a connection's number, which is not given again as long as somebody knows it */
#define IN(i) (records[0]??[i, to, value, which] || records[1]??[i, to, value, which] || acks[0]??[i, good] || acks[1]??[i, good])
#define USED(i) (via[0] == i || via[1] == i || source[0] == i || source[1] == i || IN(i))

/* used within one atomic sequence only, and 0 in between: no states of their own */
byte t, p, pl, b, bl, f, from, to, value, which, at, l, a;
byte good, c, serves, follows;
mtype r;

inline clear() {
  t = 0; p = 0; pl = 0; b = 0; bl = 0; f = 0; from = 0; to = 0; value = 0; which = 0; at = 0; l = 0; a = 0;
  good = 0; c = 0; serves = 0; follows = 0; r = 0
}

inline drop(who) {
  role[who] = BLANK; has[who] = 0; log[who] = 0; link[who] = 0; via[who] = 0; sent[who] = 0; acked[who] = 0; awaits[who] = 0; since[who] = 0;
  cut[who] = false; pending[who] = false; left_out[who] = false; source[who] = 0; named[who] = false; target[who] = 0;
}

inline new_life(one) { lives++; life[one] = lives; drop(one) }

/* What is on its way is lost. */
inline empty_all() {
  do
  :: nempty(records[0]) -> records[0]?from, to, value, which
  :: nempty(records[1]) -> records[1]?from, to, value, which
  :: nempty(acks[0]) -> acks[0]?to, good
  :: nempty(acks[1]) -> acks[1]?to, good
  :: empty(records[0]) && empty(records[1]) && empty(acks[0]) && empty(acks[1]) -> break
  od
}

inline lose_link(from_whom) {
  link[from_whom] = 0; via[from_whom] = 0; sent[from_whom] = 0; acked[from_whom] = 0;
  cut[from_whom] = awaits[from_whom] != 0
}

/* ---- a member */

/* What the primary has handed over; from then on it can hand over nothing. */
inline take_rest(me) {
  do
  :: nempty(records[me]) ->
     records[me]?from, to, value, which;
     if
     :: from == source[me] -> c_code { event(7, "who takes over uses what was handed over"); }; has[me] = value; log[me] = which
     :: else
     fi
  :: empty(records[me]) -> break
  od
}

/* Whether the backup has closed the connection that member m hands records over through. */
#define CLOSED(m) (source[1 - m] != via[m] && awaits[m] != 0)

inline take_view(me, in_term, first, first_life, second, second_life) {
  if
  :: in_term >= term[me] && in_term > 0 && !left_out[me] ->
     term[me] = in_term;
     if
     :: role[me] == PRIMARY && !(first == me && first_life == life[me]) -> left_out[me] = true
     :: role[me] == BLANK && first == me && first_life == life[me] -> role[me] = PRIMARY
     :: role[me] == BACKUP && first == me && first_life == life[me] && c -> left_out[me] = true
     :: role[me] == BACKUP && first == me && first_life == life[me] && !c ->
        c_code { event(0, "a backup takes over"); };
        if
        :: in_term > 3 -> c_code { event(1, "a backup that was filled later takes over"); }
        :: else
        fi;
        if
        :: c_expr { shared && broken != 4 } -> take_rest(me)
        :: c_expr { !shared || broken == 4 }
        fi;
        assert(has[me] >= answered);
        role[me] = PRIMARY; source[me] = 0;
        pending[me] = has[me] > answered /* its worker comes back for the answer */
     :: else
     fi;
     if
     :: role[me] == BACKUP && !(second == me && second_life == life[me]) && (named[me] || source[me] == 0) -> left_out[me] = true
     :: else
     fi;
     named[me] = role[me] == BACKUP && second == me && second_life == life[me];
     if
     :: role[me] == PRIMARY && awaits[me] != 0 && second == NONE && in_term > since[me] ->
        awaits[me] = 0; cut[me] = false; link[me] = 0; via[me] = 0; sent[me] = 0; acked[me] = 0
     :: else
     fi
  :: else
  fi
}

proctype member(byte m) {
end:
  do
  :: atomic { left_out[m] -> c_code { event(2, "who was left out drops what it holds"); }; new_life(m) }
  :: atomic { /* an order comes */
       !left_out[m] && nempty(orders[m]) ->
       orders[m]?t, p, pl, b, bl, f, c;
       take_view(m, t, p, pl, b, bl);
       target[m] = f;
       clear()
     }
  :: atomic { /* it tells how it is, if that is new */
       !left_out[m] && empty(answers[m]) &&
         (!heard[m] || s_life[m] != life[m] || s_term[m] != term[m] || s_awaits[m] != awaits[m] || s_cut[m] != cut[m] ||
          s_role[m] != role[m]) ->
       answers[m]!life[m], term[m], awaits[m], cut[m], role[m]
     }
  :: atomic { /* a worker's update: done here, and sent to the backup */
       !left_out[m] && role[m] == PRIMARY && !pending[m] && c_expr { now.made < max_updates } &&
         (link[m] == 0 || nfull(records[1 - m])) ->
       made++;
       has[m]++;
       log[m] = log[m] * 4 + made;
       pending[m] = true;
       if
       :: link[m] != 0 && c_expr { shared && broken != 5 } && CLOSED(m) ->
          c_code { event(8, "who was replaced cannot hand over a record"); };
          lose_link(m)
       :: link[m] != 0 && !(c_expr { shared && broken != 5 } && CLOSED(m)) ->
          records[1 - m]!via[m], 0, has[m], log[m]; sent[m]++;
          if
          :: c_expr { shared } && awaits[m] != 0 -> acked[m] = sent[m]
          :: else
          fi
       :: else
       fi
     }
  :: atomic { /* answer */
       !left_out[m] && role[m] == PRIMARY && pending[m] && (awaits[m] == 0 || (!cut[m] && acked[m] == sent[m]) || c_expr { broken == 1 }) ->
       if
       :: has[m] > answered ->
          if
          :: term[m] > 1 && awaits[m] == 0 -> c_code { event(3, "who took over, or is alone, answers"); }
          :: term[m] > 2 && awaits[m] != 0 -> c_code { event(4, "an answer with a backup that was filled later"); }
          :: else
          fi;
          assert(has[m] == answered + 1 && log[m] / 4 == truth);
          answered++;
          truth = log[m]
       :: else -> assert(log[m] == truth / POWER(answered - has[m])) /* once more, by who was replaced: nobody hears it */
       fi;
       pending[m] = false
     }
  :: atomic { /* fills a backup: all that it holds, at once */
       !left_out[m] && role[m] == PRIMARY && link[m] == 0 && awaits[m] == 0 && target[m] != 0 && nfull(records[1 - m]) ->
       link[m] = target[m]; sent[m] = 1; acked[m] = 0;
       if
       :: !USED(1) -> via[m] = 1
       :: USED(1) && !USED(2) -> via[m] = 2
       :: USED(1) && USED(2) && !USED(3) -> via[m] = 3
       :: USED(1) && USED(2) && USED(3) && !USED(4) -> via[m] = 4
       :: USED(1) && USED(2) && USED(3) && USED(4) -> via[m] = 5
       fi;
       assert(!USED(6));
       records[1 - m]!via[m], link[m], has[m], log[m]
     }
  :: atomic { /* it is to be another one */
       !left_out[m] && role[m] == PRIMARY && link[m] != 0 && awaits[m] == 0 && target[m] != link[m] -> lose_link(m)
     }
  :: atomic { /* it has everything: from now on answers wait for it */
       !left_out[m] && role[m] == PRIMARY && link[m] != 0 && awaits[m] == 0 && acked[m] == sent[m] ->
       c_code { event(5, "a new backup has everything"); };
       awaits[m] = link[m]; since[m] = term[m]
     }
  :: atomic { /* a record comes; one that another life is meant by, or of another connection, is refused */
       nempty(records[m]) && nfull(acks[1 - m]) ->
       records[m]?from, to, value, which;
       if
       :: !left_out[m] && role[m] == BLANK && to == life[m] ->
          role[m] = BACKUP; source[m] = from; has[m] = value; log[m] = which; acks[1 - m]!from, true
       :: !left_out[m] && role[m] == BACKUP && to == 0 && source[m] == from ->
          has[m] = value; log[m] = which;
          if /* none that is handed over is confirmed */
          :: c_expr { shared } && via[1 - m] == from && awaits[1 - m] != 0 -> skip
          :: else -> acks[1 - m]!from, true
          fi
       :: else ->
          if
          :: role[m] == PRIMARY && !left_out[m] -> c_code { event(6, "who took over refuses a record of who was replaced"); }
          :: else
          fi;
          if
          :: c_expr { broken == 2 } -> acks[1 - m]!from, true
          :: c_expr { broken != 2 } -> acks[1 - m]!from, false
          fi
       fi;
       clear()
     }
  :: atomic { /* a confirmation */
       nempty(acks[m]) ->
       acks[m]?to, good;
       if
       :: link[m] != 0 && via[m] == to && good -> acked[m]++
       :: link[m] != 0 && via[m] == to && !good -> lose_link(m)
       :: else
       fi;
       clear()
     }
  :: atomic { /* a backup sees that its connection was given up, when all that had been sent over it has come */
       source[m] != 0 && source[m] != via[1 - m] && empty(records[m]) -> source[m] = 0
     }
  :: atomic { /* the connection to the backup breaks; what was on its way is lost */
       link[m] != 0 && c_expr { now.breaks < max_breaks } ->
       breaks++;
       empty_all();
       if
       :: source[1 - m] == via[m] -> source[1 - m] = 0
       :: else
       fi;
       lose_link(m);
       clear()
     }
  :: atomic { /* death: what is on its way to it or from it is lost, but not what it has handed over */
       c_expr { now.deaths < max_deaths } ->
       deaths++;
       if
       :: c_expr { shared } ->
          if
          :: awaits[m] != 0 && nempty(records[1 - m]) -> c_code { event(9, "who has handed over records dies"); }
          :: else
          fi;
          do
          :: nempty(records[m]) -> records[m]?from, to, value, which
          :: nempty(acks[0]) -> acks[0]?to, good
          :: nempty(acks[1]) -> acks[1]?to, good
          :: empty(records[m]) && empty(acks[0]) && empty(acks[1]) -> break
          od
       :: else -> empty_all(); source[1 - m] = 0
       fi;
       if
       :: link[1 - m] != 0 -> lose_link(1 - m)
       :: else
       fi;
       new_life(m);
       clear()
     }
  od
}

/* ---- the arbiter: ps_view_next. Whoever was heard may be taken for silent. */

#define ALIVE(m, l) (heard[m] && s_life[m] == l)
#define ENDED(m, l) (heard[m] && s_life[m] != l)
#define OTHER (1 - v_primary)
/* the life that member m is to fill */
#define FILL(m) (v_backup == NONE && v_primary == m && heard[1 - m] -> s_life[1 - m] : 0)
byte told[2], filled_by[2]; /* what each was told last */

inline next_view(first, first_life, second, second_life) {
  v_term++;
  v_anew = false;
  v_primary = first; v_life = first_life; v_backup = second; v_backup_life = second_life
}

active proctype arbiter() {
end:
  do
  :: atomic { nempty(answers[0]) -> answers[0]?l, t, a, c, r;
       heard[0] = true; s_life[0] = l; s_term[0] = t; s_awaits[0] = a; s_cut[0] = c; s_role[0] = r; clear() }
  :: atomic { nempty(answers[1]) -> answers[1]?l, t, a, c, r;
       heard[1] = true; s_life[1] = l; s_term[1] = t; s_awaits[1] = a; s_cut[1] = c; s_role[1] = r; clear() }
  :: atomic { /* tells a member of the view */
       (empty(orders[0]) && (told[0] != v_term || filled_by[0] != FILL(0))) ||
         (empty(orders[1]) && (told[1] != v_term || filled_by[1] != FILL(1))) ->
       if
       :: empty(orders[0]) && (told[0] != v_term || filled_by[0] != FILL(0)) -> at = 0
       :: empty(orders[1]) && (told[1] != v_term || filled_by[1] != FILL(1)) -> at = 1
       fi;
       told[at] = v_term; filled_by[at] = FILL(at);
       orders[at]!v_term, v_primary, v_life, v_backup, v_backup_life, filled_by[at], v_anew;
       clear()
     }
  :: atomic { v_term == 0 && ((heard[0] && s_role[0] == BLANK) || (heard[1] && s_role[1] == BLANK)) ->
       if
       :: heard[0] && s_role[0] == BLANK -> next_view(0, s_life[0], NONE, 0); v_anew = true
       :: heard[1] && s_role[1] == BLANK -> next_view(1, s_life[1], NONE, 0); v_anew = true
       fi
     }
  :: atomic { v_term > 0 && c_expr { now.v_term < max_terms } ->
       serves = ALIVE(v_primary, v_life);
       follows = false;
       if
       :: v_backup != NONE -> follows = ALIVE(v_backup, v_backup_life)
       :: else
       fi;
       if
       :: serves -> skip
       :: serves -> serves = false /* taken for silent */
       :: !serves
       fi;
       if
       :: follows -> skip
       :: follows -> follows = false
       :: !follows
       fi;
       if
       :: c_expr { broken == 3 } && !serves && v_backup == NONE && heard[OTHER] ->
          at = OTHER; next_view(at, s_life[at], NONE, 0)
       :: !serves && follows -> next_view(v_backup, v_backup_life, NONE, 0)
       :: serves && v_backup != NONE && (!follows || (s_term[v_primary] == v_term && s_cut[v_primary])) ->
          next_view(v_primary, v_life, NONE, 0)
       :: serves && v_backup == NONE && s_term[v_primary] == v_term && s_awaits[v_primary] != 0 ->
          if
          :: ALIVE(OTHER, s_awaits[v_primary]) && !s_cut[v_primary] ->
             next_view(v_primary, v_life, OTHER, s_awaits[v_primary])
          :: next_view(v_primary, v_life, NONE, 0)
          fi
       :: ENDED(v_primary, v_life) && (v_backup == NONE || ENDED(v_backup, v_backup_life)) ->
          if
          :: heard[0] && s_role[0] == BLANK -> next_view(0, s_life[0], NONE, 0); v_anew = true; answered = 0; truth = 0
          :: heard[1] && s_role[1] == BLANK -> next_view(1, s_life[1], NONE, 0); v_anew = true; answered = 0; truth = 0
          :: else
          fi
       :: else
       fi;
       clear()
     }
  :: atomic { /* it dies, and is started again: it knows what is on disk */
       c_expr { now.deaths < max_deaths } ->
       deaths++;
       heard[0] = false; heard[1] = false; told[0] = 0; told[1] = 0; filled_by[0] = 0; filled_by[1] = 0;
       do
       :: nempty(orders[0]) -> orders[0]?t, _, _, _, _, _, _
       :: nempty(orders[1]) -> orders[1]?t, _, _, _, _, _, _
       :: nempty(answers[0]) -> answers[0]?l, _, _, _, _
       :: nempty(answers[1]) -> answers[1]?l, _, _, _, _
       :: empty(orders[0]) && empty(orders[1]) && empty(answers[0]) && empty(answers[1]) -> break
       od;
       clear()
     }
  od
}

init {
  atomic {
    life[0] = 1; life[1] = 2;
    drop(0); drop(1);
    if
    :: c_expr { pair } ->
       role[0] = PRIMARY; term[0] = 1; link[0] = 2; via[0] = 1; awaits[0] = 2;
       role[1] = BACKUP; term[1] = 1; source[1] = 1; named[1] = true;
       v_term = 1; v_primary = 0; v_life = 1; v_backup = 1; v_backup_life = 2;
       heard[0] = true; s_role[0] = PRIMARY; s_life[0] = 1; s_term[0] = 1; s_awaits[0] = 2;
       heard[1] = true; s_role[1] = BACKUP; s_life[1] = 2; s_term[1] = 1;
       told[0] = 1; told[1] = 1
    :: c_expr { !pair }
    fi;
    run member(0);
    run member(1)
  }
}
