@echo off
rem Starts, or continues, this site's part of the federation. Stop with Ctrl-C; run again to go on.
setlocal
chcp 65001 >nul
set PYTHONIOENCODING=utf-8
set PYTHONUTF8=1
cd /d "%~dp0"
where uv >nul 2>nul
if errorlevel 1 (
  echo uv was not found. Install it with: pip install uv
  pause
  exit /b 2
)
uv run clif-stitch run %*
set STITCH_EXIT=%ERRORLEVEL%
if not "%STITCH_EXIT%"=="0" (
  echo.
  echo clif-stitch ended with exit code %STITCH_EXIT%. The lines above say what to do.
  pause
)
exit /b %STITCH_EXIT%
