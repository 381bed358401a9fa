import { setImmediate } from 'node:timers/promises'

/** How long the worker works before it looks at its messages, in ms. */
const SLICE_MS = 8

let sliceStartMs = performance.now()
let turn: Promise<void> | undefined

/**
 * Lets messages in and other calls go on, once this slice of work is used up. The calls of a bucket run on one thread by
 * synchronous file operations; this is where they take turns.
 */
export async function breathe(): Promise<void> {
  if (performance.now() - sliceStartMs < SLICE_MS) return
  turn ??= nextTurn()
  await turn
}

async function nextTurn(): Promise<void> {
  await setImmediate()
  turn = undefined
  sliceStartMs = performance.now()
}
