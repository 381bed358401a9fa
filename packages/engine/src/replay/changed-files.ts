import { readdir } from 'node:fs/promises'
import { join, relative, sep } from 'node:path'
import { fromSystemError } from '@nexus/errors'
import { hashSteps, Slices } from '@nexus/host'
import type { ChangedFile, FileState } from './branch-report.ts'

const FILES = 'files'

/** The regular files below `files/` that two session trees don't have alike, by path. Links are not followed. */
export async function changedFiles(before: string, after: string): Promise<ChangedFile[]> {
  const [one, other] = [await filesOf(before), await filesOf(after)]
  const paths = [...new Set([...one.keys(), ...other.keys()])].toSorted()
  return paths.flatMap((path): ChangedFile[] => {
    const [left, right] = [one.get(path), other.get(path)]
    if (left?.sha256 === right?.sha256) return []
    return [{ path, ...(left === undefined ? {} : { before: left }), ...(right === undefined ? {} : { after: right }) }]
  })
}

async function filesOf(sessionDir: string): Promise<Map<string, FileState>> {
  const found = new Map<string, FileState>()
  const root = join(sessionDir, FILES)
  const time = new Slices()
  for (const entry of await entriesOf(root)) {
    if (!entry.isFile()) continue
    const path = join(entry.parentPath, entry.name)
    const steps = hashSteps(path)
    let step = steps.next()
    for (; step.done !== true; step = steps.next()) await time.rest()
    const name = `${FILES}/${relative(root, path).replaceAll(sep, '/')}`
    found.set(name, { sizeBytes: step.value.size, sha256: step.value.sha256 })
  }
  return found
}

async function entriesOf(root: string): ReturnType<typeof readWhole> {
  try {
    return await readWhole(root)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw fromSystemError(error, 'engine.replay', root)
  }
}

const readWhole = (root: string) => readdir(root, { recursive: true, withFileTypes: true })
