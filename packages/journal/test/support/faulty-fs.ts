import nodeFsModule from 'node:fs'
import type { JournalFs } from '../../src/index.ts'

/** One call of a file function. */
export interface FsCall {
  /** From 0, over all functions. */
  index: number
  name: keyof JournalFs
  args: readonly unknown[]
}

/** File functions that remember what was asked of them. */
export type FaultyFs = JournalFs & {
  calls: FsCall[]
  /** Descriptors that are open at present. */
  open: ReadonlySet<number>
}

/**
 * The file functions of `real`, with `decide` asked before each call: an error makes the call fail with it, a number makes a
 * write take only that many bytes.
 */
export function faultyFs(
  decide: (call: FsCall) => Error | number | undefined,
  real: JournalFs = nodeFsModule,
): FaultyFs {
  const calls: FsCall[] = []
  const open = new Set<number>()
  return new Proxy({ calls, open } as unknown as FaultyFs, {
    get(target, name: keyof FaultyFs) {
      if (name === 'calls' || name === 'open') return target[name]
      return (...args: unknown[]): unknown => {
        const call = { index: calls.length, name, args }
        calls.push(call)
        if (name === 'closeSync') open.delete(args[0] as number)
        const result = perform(real, name, args, decide(call))
        if (name === 'openSync') open.add(result as number)
        return result
      }
    },
  })
}

function perform(real: JournalFs, name: keyof JournalFs, args: unknown[], fault: Error | number | undefined): unknown {
  if (fault instanceof Error) {
    // A close that reports an error has closed all the same.
    if (name === 'closeSync') real.closeSync(args[0] as number)
    const callback = args.at(-1)
    if (typeof callback !== 'function') throw fault
    setImmediate(() => (callback as (error: Error) => void)(fault))
    return undefined
  }
  if (typeof fault === 'number' && name === 'writeSync') {
    const [fd, bytes, offset] = args as [number, Uint8Array, number]
    return real.writeSync(fd, bytes, offset, fault)
  }
  return (real[name] as (...all: unknown[]) => unknown)(...args)
}

/** A system error as Node throws it. */
export function systemError(code: string): NodeJS.ErrnoException {
  return Object.assign(new Error(`${code}: injected`), { code })
}
