import { createHash } from 'node:crypto'
import { mkdir, readdir, readFile, readlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Backend, systemCode } from '@nexus/objectstore'
import type { CaseContext } from './contract-case.ts'

/** Puts an object into a backend's bucket under any key, not through the backend. */
export type Plant = (backend: Backend, key: string, content: Uint8Array) => Promise<void> | void

/** Makes the context of one case. `dir` is the case's own and exists. */
export function createCaseContext(
  backend: Backend,
  dir: string,
  options: { listProbeCount: number; plant?: Plant | undefined },
): CaseContext {
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
    listProbeCount: options.listProbeCount,
    freshPath,
    file,
    store: async (key, content) => backend.put(key, await file(content)),
    keys: async (prefix) => (await backend.list(prefix)).map(({ key }) => key).toSorted(),
    hydrated: async (prefix) => {
      const destination = freshPath()
      await mkdir(destination)
      await backend.hydrate(prefix, destination)
      return readTree(destination)
    },
    close: () => (closing ??= closeBackend(backend)),
    plant: async (key, content) => options.plant?.(backend, key, Buffer.from(content)),
  }
}

async function closeBackend(backend: Backend): Promise<void> {
  await backend.close?.()
}

const SHOWN_BYTES = 4096

/**
 * Every file and link below a directory with its content, sorted by path, for comparing with `deepEqual`: text up to 4 KiB
 * as it is, anything longer as size and digest, a link as its target. A file that vanishes meanwhile is not there.
 */
export async function readTree(dir: string): Promise<[path: string, content: string][]> {
  const found: [string, string][] = []
  const visit = async (relative: string): Promise<void> => {
    for (const entry of await readdir(join(dir, relative), { withFileTypes: true })) {
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
