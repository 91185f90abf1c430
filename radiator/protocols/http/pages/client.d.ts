// Types of client.js: docs/HTTP.md, "In the browser".

export interface Options {
  url?: string;
  user?: string;
  password?: string;
  token?: string;
  /** How often an answer of 429 or 503 is tried again; 5 where it is not given. */
  retries?: number;
}

export interface Abortable {
  signal?: AbortSignal;
}

/** Text and bytes as they are; anything else as JSON. */
export type Body = string | ArrayBuffer | ArrayBufferView | unknown;

export interface Outgoing {
  body: Body;
  headers?: Record<string, string>;
  idempotencyKey?: string;
}

export interface Published {
  ids: string[];
  duplicates: number;
}

export interface Message {
  id: string;
  destination: string;
  /** Milliseconds since the epoch. */
  timestamp: number;
  headers: Record<string, string>;
  body: string | Uint8Array;
}

export interface LeasedMessage extends Message {
  lease: string;
  redelivered: boolean;
  redeliveries: number;
}

export interface EventMessage extends Message {
  /** Of records of logs. */
  partition?: number;
  offset?: number;
  /** What `from` takes to go on behind this message. */
  lastEventId?: string;
}

export interface Settlement {
  lease: string;
  action: "ack" | "release" | "reject" | "extend";
  delayMs?: number;
  leaseMs?: number;
}

export type Verdict = { ok: true } | { ok: false; status: number; code: string; detail: string };

export interface EventOptions extends Abortable {
  /** Of a log: "latest", "earliest", or PARTITION:OFFSET with "," between. */
  from?: string;
  partition?: number;
  onMessage?: (message: EventMessage) => void | Promise<void>;
}

export interface StatsOptions extends Abortable {
  /** 1 to 3600; 5 where it is not given. */
  everyS?: number;
  /** What GET /v1/stats has, without the sections. */
  onStats?: (stats: Record<string, unknown>) => void | Promise<void>;
}

export class RadiatorError extends Error {
  readonly status: number;
  readonly code: string;
  readonly detail: string;
}

export interface Radiator {
  publish(address: string, body: Body, options?: Omit<Outgoing, "body"> & Abortable): Promise<Published>;
  publishAll(address: string, messages: Outgoing[], options?: Abortable): Promise<Published>;
  receive(
    queue: string,
    options?: { max?: number; waitMs?: number; leaseMs?: number } & Abortable,
  ): Promise<LeasedMessage[]>;
  settle(settlements: Settlement[], options?: Abortable): Promise<Verdict[]>;
  events(address: string, options?: EventOptions): Promise<void>;
  stats(options?: StatsOptions): Promise<void>;
}

export function connect(options?: Options): Radiator;
