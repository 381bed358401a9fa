import { createHash } from 'node:crypto'
import { mkdir, readdir, readFile, readlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Backend, ObjectStore, quoteKey, systemCode } from '@nexus/objectstore'
import { type CaseContext, NotApplicable, type Step } from './contract-case.ts'

/**
 * Puts an object into a backend's bucket under any key, not through the backend. Answers false when the store can't hold that
 * key, as it is: a store that turns `\\` into `/`, say.
 */
// eslint-disable-next-line typescript/no-invalid-void-type
export type Plant = (backend: Backend, key: string, content: Uint8Array) => Promise<boolean | void> | boolean | void

/** What a context is made from. */
export interface ContextOptions {
  listProbeCount: number
  plant?: Plant | undefined
  open: CaseContext['open']
  removeBucket: (backend: Backend) => Promise<void>
  /** Whether a case that only uses this had failed before: its name. */
  brokenStep: (step: Step) => string | undefined
}

/** A context, and which call of the driver an error came from. */
export interface ObservedContext extends CaseContext {
  readonly callOf: (error: unknown) => string | undefined
}

/** Makes the context of one case. `dir` is the case's own and exists. */
export function createCaseContext(given: Backend, dir: string, options: ContextOptions): ObservedContext {
  const { backend, callOf } = observed(given)
  let created = 0
  let closing: Promise<void> | undefined
  const freshPath = (): string => join(dir, `local-${++created}`)
  const file = async (content: string | Uint8Array): Promise<string> => {
    const path = freshPath()
    await writeFile(path, content)
    return path
  }
  return {
    backend,
    callOf,
    seam: new ObjectStore(backend, { name: 'contract' }),
    listProbeCount: options.listProbeCount,
    open: options.open,
    removeBucket: () => options.removeBucket(given),
    freshPath,
    file,
    store: async (key, content) => {
      const path = await file(content)
      try {
        await backend.put(key, path)
      } catch (error) {
        const failed = options.brokenStep('put')
        throw failed === undefined ? error : notRun('put', failed)
      }
    },
    keys: async (prefix) => {
      // Where it answers wrongly, each case that looks at everything would fail for the same reason.
      const failed = prefix === '' ? options.brokenStep('list of everything') : undefined
      if (failed !== undefined) throw notRun('list of everything', failed)
      return (await backend.list(prefix)).map(({ key }) => key).toSorted()
    },
    hydrated: async (prefix) => {
      const destination = freshPath()
      await mkdir(destination)
      await backend.hydrate(prefix, destination)
      return readTree(destination)
    },
    close: () => (closing ??= closeBackend(given)),
    plant: async (key, content) => {
      const held = await options.plant?.(given, key, Buffer.from(content))
      if (held === false) throw new NotApplicable(`the store can't hold an object under ${quoteKey(key)}`)
    },
  }
}

function notRun(step: Step, failed: string): NotApplicable {
  return new NotApplicable(`not run: it needs ${step}, and "${failed}" failed`)
}

const CALLS: ReadonlySet<unknown> = new Set([
  'hydrate',
  'put',
  'delete',
  'list',
  'flush',
  'get',
  'putIfAbsent',
  'listNames',
  'close',
])

/** The backend, with a note of which call each error came from. */
function observed(given: Backend): { backend: Backend; callOf: (error: unknown) => string | undefined } {
  const calls = new Map<unknown, string>()
  const backend = new Proxy(given, {
    get: (target, name) => {
      const method: unknown = Reflect.get(target, name, target)
      if (typeof method !== 'function') return method
      if (!CALLS.has(name)) return method.bind(target) as unknown
      return (...args: unknown[]): unknown => {
        const answer: unknown = Reflect.apply(method, target, args)
        const [key] = args
        const subject = typeof key === 'string' ? `${String(name)} of ${quoteKey(key)}` : String(name)
        if (answer instanceof Promise) answer.catch((error: unknown) => calls.set(error, subject))
        return answer
      }
    },
  })
  return { backend, callOf: (error) => calls.get(error) }
}

async function closeBackend(backend: Backend): Promise<void> {
  await backend.close?.()
}

const SHOWN_BYTES = 4096

/**
 * Every file and link below a directory with its content, sorted by path, for comparing with `deepEqual`: text up to 4 KiB
 * as it is, anything longer as size and digest, a link as its target. What vanishes meanwhile, or never was, is not there.
 */
export async function readTree(dir: string): Promise<[path: string, content: string][]> {
  const found: [string, string][] = []
  const visit = async (relative: string): Promise<void> => {
    for (const entry of (await readdir(join(dir, relative), { withFileTypes: true }).catch(noneIfMissing)) ?? []) {
      const path = relative === '' ? entry.name : `${relative}/${entry.name}`
      if (entry.isDirectory()) await visit(path)
      else if (entry.isSymbolicLink()) found.push([path, `link to ${await readlink(join(dir, path))}`])
      else {
        const bytes = await readFile(join(dir, path)).catch(noneIfMissing)
        if (bytes !== undefined) found.push([path, describeBytes(bytes)])
      }
    }
  }
  await visit('')
  return found.toSorted(([a], [b]) => (a < b ? -1 : 1))
}

function noneIfMissing(error: unknown): undefined {
  if (systemCode(error) !== 'ENOENT') throw error
}

/** A file's content as {@link readTree} gives it. */
export function describeBytes(content: string | Uint8Array): string {
  const bytes = Buffer.from(content)
  if (bytes.length > SHOWN_BYTES) {
    return `${bytes.length} bytes, sha256 ${createHash('sha256').update(bytes).digest('hex')}`
  }
  const text = bytes.toString()
  return Buffer.from(text).equals(bytes) ? text : `hex ${bytes.toString('hex')}`
}
